"""torch.profiler over one stretch of steps, without what it does for those who read its events in Python."""

import gzip
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def recording(activities: Sequence[Any], warmup: int, active: int, **details: bool) -> Iterator[Any]:
    """torch's profiler, whose `step` is called after each of `warmup` + `active` steps."""
    from torch.profiler import profile, schedule

    with warnings.catch_warnings():
        # torch advises `acc_events` where there are cycles. It makes a Python object of every event at once, which
        # takes 19 s for 36,000 operators; and here is one cycle.
        warnings.filterwarnings("ignore", message=".*Profiler clears events")
        # Without `repeat` a second cycle begins at once and throws the first one's events away.
        plan = schedule(wait=0, warmup=warmup, active=active, repeat=1)
        with profile(activities=activities, schedule=plan, **details) as profiler:
            yield profiler


def write_trace(profiler: Any, path: str) -> None:
    """The trace, packed: quickly rather than tightly (torch's own way takes 20 times as long for a third less)."""
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        plain = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(plain))
        with plain.open("rb") as read, gzip.open(path, "wb", compresslevel=1) as written:
            shutil.copyfileobj(read, written, 1 << 20)
