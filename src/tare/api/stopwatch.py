"""`tare.stopwatch`: names a region of a step, which `tare.explain` shows with its time."""

import sys
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any


class stopwatch(ContextDecorator):
    """Marks a region, as a context or as a decorator; `tare explain` and `tare.explain` list the marked regions.

    >>> import tare
    >>> with tare.stopwatch("data loading"):
    ...     batch = list(range(10))
    >>> @tare.stopwatch("augmentation")
    ... def augment(batch):
    ...     return batch[::-1]
    >>> augment(batch)[0]
    9

    While torch's profiler records, the region becomes one of its annotations (torch.profiler.record_function), so
    that other tools see it too. Otherwise it does nothing, and costs about a microsecond.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[Any] = []

    def __enter__(self) -> "stopwatch":
        torch: Any = sys.modules.get("torch")
        region = None
        if torch is not None and not torch.compiler.is_compiling() and torch.autograd._profiler_enabled():
            region = torch.profiler.record_function(self.name)
            region.__enter__()
        self._open.append(region)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        region = self._open.pop()
        if region is not None:
            region.__exit__(kind, error, traceback)
