"""A trace explained: its breakdown, why the device was idle, and the waterfall up to gross."""

from collections.abc import Sequence

import msgspec

from tare.errors import BadInput
from tare.system.text import printable
from tare.trace.breakdown import Breakdown, breakdown
from tare.trace.hosttime import HostTime, host_time
from tare.trace.idle import Idle, explain_idle
from tare.trace.recording_info import marked_time, own_marks
from tare.trace.roofline import Floor
from tare.trace.tables import Trace
from tare.trace.waterfall import Waterfall, device_waterfall, host_waterfall, lowered
from tare.trace.windows import main_device, other_stepping, typical, usual


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`breakdown` and `idle` for a device, `host` alone where there is none. `places` are the causes of idleness
    in a second trace, recorded with stacks: their names are exact, their shares distorted by recording them."""

    title: str
    trace: str
    case: str | None = None
    workload: str | None = None
    mode: str | None = None
    domain: str | None = None
    rung: str | None = None
    device: str = ""
    breakdown: Breakdown | None
    idle: Idle | None
    host: HostTime
    places: Idle | None = None
    floor: Floor | None = None
    waterfall: Waterfall
    notes: list[str] = []
    # The status of its parity, where it computes something else than the reference.
    differs: str = ""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a trace beside its events. `gross` is in nanoseconds, measured without a profiler."""

    title: str
    gross: int | None = None
    case: str | None = None
    workload: str | None = None
    mode: str | None = None
    domain: str | None = None
    rung: str | None = None


def explain(trace: Trace, about: About, floor: Floor | None = None, stacks: Trace | None = None) -> Explanation:
    """Everything there is to say; BadInput where the trace holds no step and no event."""
    trace = usual(trace)
    host = host_time(trace)
    if host is None or host.window == 0:
        unusable = f" ({trace.skipped} events have no usable time)" if trace.skipped else ""
        raise BadInput(
            f"the trace {trace.source} holds no operator, no call and no kernel: nothing to explain{unusable}"
        )
    parts = breakdown(trace)
    idle = explain_idle(trace)
    places = explain_idle(typical(stacks)) if stacks is not None else None
    gross = about.gross
    profiled = gross is None
    if gross is None:
        window = parts.window if parts else host.window
        gross = round(window / host.steps)
    if parts is not None and idle is not None:
        fall = device_waterfall(about.title, gross, parts, idle, floor, profiled)
    else:
        fall = host_waterfall(about.title, gross, host, floor, profiled)
    known = {name: getattr(about, name) for name in ("case", "workload", "mode", "domain", "rung")}
    return Explanation(
        title=about.title,
        trace=trace.source,
        device=device_name(trace),
        breakdown=parts,
        idle=idle,
        host=host,
        places=places,
        floor=floor,
        waterfall=fall,
        notes=_notes(trace, parts, profiled),
        **known,
    )


def on_one_floor(rungs: Sequence[Explanation]) -> list[Explanation]:
    """Rungs that compute the same stand on the same floor: where the kernels of one took less than the counted
    work needs at the measured peaks, that is the floor of all."""
    floors = [_proven(one.waterfall, one.breakdown is None) for one in rungs if one.floor is not None]
    return [
        msgspec.structs.replace(one, waterfall=lowered(one.waterfall, one.floor, min(floors)))
        if one.floor is not None
        else one
        for one in rungs
    ]


def _proven(fall: Waterfall, on_host: bool) -> int:
    """The floor that a step has shown. On a host what runs in no operator may compute as well (code that was
    compiled ahead), and so no less than both together is proven."""
    return fall.find("floor") + (fall.find("python") if on_host else 0)


def recorded_gross(trace: Trace) -> int | None:
    """The gross that whoever recorded the trace wrote into it (`tare_recorded`), if it is a number."""
    gross = marked_time(trace, "tare_recorded", "gross_ns")
    return None if gross is None else round(gross)


def device_name(trace: Trace) -> str:
    """Of the device that the trace is explained for; empty where there is none, or nobody named it."""
    devices, main = trace.metadata.get("deviceProperties"), main_device(trace)
    if main is None or not isinstance(devices, list):
        return ""
    for one in devices:
        if isinstance(one, dict) and one.get("id") == main:
            return printable(str(one.get("name", "")), 80)
    return ""


def _notes(trace: Trace, parts: Breakdown | None, profiled: bool) -> list[str]:
    notes = []
    if profiled:
        notes.append("gross is not known: shares of the profiled step, which is slower than a step is")
    if trace.has_stacks:
        notes.append("recorded with stacks, which slow the host: idle shares are too large")
    own = own_marks(trace)
    if own is not None and not own.shapes:
        notes.append("recorded without shapes: to know them, torch's profiler keeps every tensor of such a step")
    if len(trace.steps) == 1 and int(trace.steps.number[0]) < 0:
        notes.append("no step is marked (ProfilerStep#N): the whole trace is taken as one step")
    elsewhere = other_stepping(trace)
    if elsewhere:
        notes.append(
            f"steps are marked on {elsewhere + 1} threads, as in traces put together: only those of "
            f"{trace.threads[int(trace.steps.thread[0])]} (process/thread) count; explain each trace by itself"
        )
    left_out = len(trace.steps) - int(trace.steps.counted.sum())
    if left_out:
        notes.append(
            f"left out, because far longer than the others: {left_out} of {len(trace.steps)} profiled steps"
        )
    if trace.skipped:
        notes.append(f"{trace.skipped} events have no usable time and were left out")
    if trace.begun:
        notes.append(f"{trace.begun} spans are begun and ended by two events (ph B and E), which are not read")
    if parts is None:
        notes.append("no device: the host's time by operator")
        return notes
    if parts.orphans:
        notes.append(
            f"{parts.orphans} pieces of device work have no launching call (it came before the trace began, or "
            "was not recorded)"
        )
    if not len(trace.operators) and not len(trace.calls):
        notes.append("no operator and no call of the host was recorded: why the device is idle is not known")
    if parts.lost_launches:
        notes.append(f"{parts.lost_launches} launches have no kernel: the profiler lost some of the device's side")
    if parts.launched_before:
        notes.append(
            f"{parts.launched_before} pieces of device work ran in a later step than they were launched in"
        )
    if parts.other_devices:
        notes.append(f"device {parts.device} only; also in the trace: {', '.join(map(str, parts.other_devices))}")
    return notes
