"""A rung outside torch, as a plug-in in one file: NumPy in a thread, dispatched asynchronously as JAX does.

torch is only asked for the initial weights and the batch, so that parity can compare the results.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from typing import Any

import numpy as np

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload
from tare.workloads.variants import make_batches


class AsyncArray:
    """An array that may still be computed; `__array__` blocks until it is ready."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def block_until_ready(self) -> "AsyncArray":
        self._future.result()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._future.result(), dtype)


class NumpyProgram(Program):
    overlaps = True

    def __init__(self, workload: Workload, case: Case) -> None:
        weights = [tensor.detach().numpy() for tensor in workload.build(case.sizes).parameters()]
        self._layers = list(zip(weights[::2], weights[1::2], strict=True))
        self._batches = [batch.args[0].numpy() for batch in make_batches(workload, case.batch, case.sizes)]
        self._input = self._batches[0]
        self._waits = split_name(case.rung)[1] != "nowait"
        # At most so many steps in flight, as on a device.
        self._pool, self._free = ThreadPoolExecutor(1), Semaphore(1024)
        self._last: AsyncArray | None = None

    def _forward(self) -> Any:
        values = self._input
        for i, (weight, bias) in enumerate(self._layers):
            values = values @ weight.T + bias
            if i < len(self._layers) - 1:
                values = np.maximum(values, 0)
        return values

    def step(self) -> AsyncArray:
        self._free.acquire()
        future = self._pool.submit(self._forward)
        future.add_done_callback(lambda _: self._free.release())
        self._last = AsyncArray(future)
        return self._last

    def synchronize(self) -> None:
        if self._last is not None and self._waits:
            self._last.block_until_ready()

    def select(self, batch: int) -> None:
        self._input = self._batches[batch]


@rung
class NumpyRung(Rung):
    name = "numpy"
    summary = "NumPy in a thread"
    variants = {"nowait": "with a planted mistake: its synchronisation does not wait"}

    def supports(self, case: Case, workload: Workload) -> str | None:
        plain = case.mode == "infer" and case.device == "cpu" and case.precision == "fp32"
        return None if plain and workload.name == "mlp" else "it runs the mlp for inference in fp32 on a CPU"

    def prepare(self, workload: Workload, case: Case) -> Program:
        return NumpyProgram(workload, case)
