"""A trace explained: its breakdown, why the device was idle, and the waterfall up to gross."""

from collections.abc import Sequence

import msgspec
import numpy as np

from tare.errors import BadInput
from tare.system.text import printable
from tare.trace.breakdown import Breakdown, breakdown
from tare.trace.host import BEFORE, CAUSES, UNKNOWN
from tare.trace.host_time import HostTime, host_time
from tare.trace.idle import IdleTime, explain_idle
from tare.trace.lines import has_marks
from tare.trace.metadata import device_name, live_recording, recorded_gross, recording_info
from tare.trace.regions import Region, regions
from tare.trace.roofline import Roofline
from tare.trace.tables import Trace
from tare.trace.waterfall import Waterfall, device_waterfall, host_waterfall, lower_roofline
from tare.trace.windows import drop_outlier_steps, other_step_threads, select_steps

# From this share of the windows on, a note says what is not known.
LEAST_UNEXPLAINED = 0.1


class ProfiledProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What was profiled, as far as it is known."""

    title: str
    case: str | None = None
    workload: str | None = None
    mode: str | None = None
    domain: str | None = None
    rung: str | None = None


class About(ProfiledProgram, frozen=True, kw_only=True):
    """What is known of a trace beside its events. `gross` is in nanoseconds, measured without a profiler."""

    gross: int | None = None


class Explanation(ProfiledProgram, frozen=True, kw_only=True):
    """`breakdown` and `idle` for a device; `host` alone without one. `places` are the causes of idle time in a
    second trace, recorded with stacks: its places are exact, its shares are distorted by the recording."""

    trace: str
    device: str = ""
    breakdown: Breakdown | None
    idle: IdleTime | None
    host: HostTime
    places: IdleTime | None = None
    roofline: Roofline | None = None
    waterfall: Waterfall
    # What the program marked, with times of the profiled run.
    regions: list[Region] = []
    notes: list[str] = []
    # The status of the parity check, where the rung does not compute what the reference computes.
    differs: str = ""


def explain(
    trace: Trace, about: About, roofline: Roofline | None = None, stacks: Trace | None = None
) -> Explanation:
    """Explains a trace; BadInput if it holds no step and no event."""
    trace = select_steps(trace)
    host = host_time(trace)
    if host is None or host.window == 0:
        unusable = f" ({trace.skipped} events have no usable time)" if trace.skipped else ""
        raise BadInput(
            f"the trace {trace.source} holds no operator, no call and no kernel: nothing to explain{unusable}"
        )
    parts, idle = breakdown(trace), explain_idle(trace)
    profiled = about.gross is None
    gross = about.gross
    if gross is None:
        gross = round((parts.window if parts else host.window) / host.steps)
    if parts is not None and idle is not None:
        waterfall = device_waterfall(about.title, gross, parts, idle, roofline, profiled)
    else:
        waterfall = host_waterfall(about.title, gross, host, roofline, profiled)
    return Explanation(
        **{field: getattr(about, field) for field in ProfiledProgram.__struct_fields__},
        trace=trace.source,
        device=device_name(trace),
        breakdown=parts,
        idle=idle,
        host=host,
        places=explain_idle(drop_outlier_steps(stacks)) if stacks is not None else None,
        roofline=roofline,
        waterfall=waterfall,
        regions=regions(trace),
        notes=_notes(trace, parts, idle, profiled),
    )


def _live_notes(trace: Trace) -> list[str]:
    """How a script was recorded live, and what that cost."""
    live, gross = live_recording(trace), recorded_gross(trace)
    if live is None or gross is None:
        return []
    note = f"recorded live: {live.steps} steps, each to the end of {printable(live.steps_end, 60)}, after "
    note += f"{live.warmup} of warm-up; gross is that of {live.timed} steps without the profiler, "
    note += f"which made a step {live.profiled_ns / gross:.2f}x as long"
    return [note] if live.steady else [note, "the steps did not become steady before they were recorded"]


def share_roofline(rungs: Sequence[Explanation]) -> list[Explanation]:
    """Gives rungs with the same work one roofline: if the kernels of one took less than the counted work needs at
    the measured peaks, its time is the roofline of all."""
    proven = [_proven_roofline(rung) for rung in rungs if rung.roofline is not None]
    return [
        msgspec.structs.replace(rung, waterfall=lower_roofline(rung.waterfall, rung.roofline, min(proven)))
        if rung.roofline is not None
        else rung
        for rung in rungs
    ]


def _proven_roofline(rung: Explanation) -> int:
    """The time that the work certainly fits in. On a host, time outside operators may be computing too (code that
    was compiled ahead of time), so it counts."""
    unseen = rung.waterfall.find("python") if rung.breakdown is None else 0
    return rung.waterfall.find("roofline") + unseen


def _unexplained(parts: Breakdown, idle: IdleTime | None) -> float:
    """The share of the windows in which launched work waited for what is not known."""
    causes = (CAUSES[BEFORE], CAUSES[UNKNOWN])
    waited = sum(cause.idle for cause in idle.causes if cause.cause in causes) if idle else 0
    return waited / parts.window if parts.window else 0.0


def _notes(trace: Trace, parts: Breakdown | None, idle: IdleTime | None, profiled: bool) -> list[str]:
    notes = []
    if profiled:
        notes.append("gross is not known: shares of the profiled step, which is slower than a step is")
    if trace.has_stacks:
        notes.append("recorded with stacks, which slow the host: idle shares are too large")
        if not has_marks(trace):
            notes.append("a line is the one that defines its function: torch.profiler records no other")
    info = recording_info(trace)
    if info is not None and not info.shapes:
        notes.append("recorded without shapes: to know them, torch's profiler keeps every tensor of such a step")
    notes += _live_notes(trace)
    if len(trace.steps) == 1 and int(trace.steps.number[0]) < 0:
        notes.append("no step is marked (ProfilerStep#N): the whole trace is taken as one step")
    elif len(trace.steps) and not trace.steps.marked:
        found = int(trace.steps.counted.sum())
        what = "Python calls" if np.isin(trace.steps.start, trace.frames.start).all() else "launches"
        notes.append(f"no step is marked (ProfilerStep#N): {found} repetitions of the same {what} are the steps")
    other_threads = other_step_threads(trace)
    if other_threads:
        notes.append(
            f"steps are marked on {other_threads + 1} threads, as in merged traces: only those of "
            f"{trace.threads[int(trace.steps.thread[0])]} (process/thread) count; explain each trace by itself"
        )
    outliers = len(trace.steps) - int(trace.steps.counted.sum())
    if outliers and not trace.steps.marked:
        notes.append(f"warm-up, which counts in no figure: the first {outliers} of {len(trace.steps)} repetitions")
    elif outliers:
        notes.append(f"skipped as outliers, far longer than the others: {outliers} of {len(trace.steps)} steps")
    if trace.skipped:
        notes.append(f"{trace.skipped} events have no usable time and were skipped")
    if trace.begun:
        notes.append(f"{trace.begun} spans begin (ph B) and never end: they are not read")
    if parts is None:
        return [*notes, "no device: the host's time by operator"]
    if parts.orphans:
        notes.append(
            f"{parts.orphans} kernels or copies have no launching call (it came before the trace began, or was "
            "not recorded)"
        )
    if not len(trace.operators) and not len(trace.calls):
        notes.append("no operator and no call of the host was recorded: why the device is idle is not known")
    elif (share := _unexplained(parts, idle)) >= LEAST_UNEXPLAINED:
        notes.append(
            f"for {share:.0%} of the time the device waited, with work launched, for something that the trace "
            "does not show: no finding can be about it"
        )
    if parts.lost_launches:
        notes.append(f"{parts.lost_launches} launches have no kernel: the profiler lost some of the device's side")
    if parts.launched_before:
        notes.append(f"{parts.launched_before} kernels or copies ran in a later step than they were launched in")
    if parts.other_devices:
        notes.append(f"device {parts.device} only; also in the trace: {', '.join(map(str, parts.other_devices))}")
    return notes
