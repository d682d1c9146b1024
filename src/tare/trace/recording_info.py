"""What tare's own traces say of themselves (tare.worker.profiling): nobody else has to be asked then."""

import msgspec

from tare.records.work import Work
from tare.trace.tables import Trace


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """Whose step it is. `work` is what one step computes, where that was counted; `shapes` whether those of the
    operators were recorded."""

    case: str
    workload: str
    mode: str
    precision: str
    rung: str
    work: Work | None = None
    shapes: bool = True


def own_marks(trace: Trace) -> Own | None:
    """None of a stranger's trace, and of one that claims to be tare's and is not made like one."""
    try:
        return msgspec.convert(trace.metadata.get("tare_profiled"), Own)
    except msgspec.ValidationError:
        return None


def marked_time(trace: Trace, mark: str, name: str, below: float = 1e18) -> float | None:
    """A time in nanoseconds that somebody wrote into a trace, if it is one."""
    marks = trace.metadata.get(mark)
    found = marks.get(name) if isinstance(marks, dict) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    return found if 1 <= found < below else None
