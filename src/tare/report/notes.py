"""Notes under a ladder: what matters for a comparison of its rungs. Rungs with the same note share a line."""

from collections.abc import Iterator

from tare.measure.telemetry import busy_reasons
from tare.records.environment import Environment, difference_lines
from tare.records.figures import (
    FEWEST_BLOCKS,
    good_rounds,
    gross,
    net_profile,
    spread_between_rounds,
    spread_within_rounds,
    throttled_share,
    throughput,
)
from tare.records.record import NOT_ASKED_FOR, BatchSearch, Parity, Record
from tare.report.numbers import rate, seconds

SEARCH_STOPS = {
    "throughput": "throughput stopped rising",
    "memory": "memory ended",
    "time": "a step became too long",
    "failure": "the next batch failed",
    "largest": "no larger batch is tried",
}
# A CPU whose speed changes by more than this within a round makes host-bound figures noisy.
PACE = 0.15
# Rounds whose medians lie further apart than this are worth a note.
BETWEEN_ROUNDS = 0.10
# Kernels may take this much longer under the profiler before it is worth a note.
PROFILED = 1.05
# Of a quick run of eager alone, and of one with --no-parity.
NOT_COMPARED = "was not compared with the reference, which --parity asks for"


def make_notes(records: list[Record]) -> list[str]:
    notes = list(_of_the_ladder(records))
    shared: dict[str, list[str]] = {}
    for record in records:
        for text in (*_of_parity(record), *_of_net(record), *_of_the_machine(record), *_of_the_rounds(record)):
            shared.setdefault(text, []).append(record.case.rung)
    for text, rungs in shared.items():
        everyone = len(rungs) == len(records) > 1
        notes.append(f"{'all rungs' if everyone else ', '.join(rungs)}: {text}")
    return notes


def other_environment(first: Environment, second: Environment) -> str:
    """Why two ladders of the same cases cannot be compared."""
    differ = difference_lines(first, second)
    more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
    return f"from another environment than the ladder of the same cases above: {differ[0]}{more}"


def _of_the_ladder(records: list[Record]) -> Iterator[str]:
    if len({record.run for record in records}) > 1:
        yield "the rungs were measured in different runs, not interleaved"
    if len({gpu for record in records if (gpu := record.environment.circumstances.get("gpu_uuid"))}) > 1:
        yield "the rungs were measured on different GPUs of one kind"
    yield from (_of_the_search(record.search) for record in records if record.search)
    intervals = [step for record in records if (step := gross(record))]
    if any(not step.sound for step in intervals):
        yield "one round: the noise between processes is not known, so no interval is shown"
    yield from _busy_machine(records)


def _busy_machine(records: list[Record]) -> Iterator[str]:
    """The load that disturbed any round, and how far the samples spread, with the worst values of the ladder."""
    telemetry = [done.telemetry for record in records for done in good_rounds(record) if done.telemetry]
    load, steal, on_gpu = (
        max((value for each in telemetry if (value := getattr(each, name)) is not None), default=None)
        for name in ("cpu_other_load", "cpu_steal", "other_gpu_processes")
    )
    causes = busy_reasons(load, steal, on_gpu)
    within = max((spread for r in records if (spread := spread_within_rounds(r)) is not None), default=None)
    between = max((spread for r in records if (spread := spread_between_rounds(r)) is not None), default=None)
    spreads = [f"{within:.0%} within a round (interquartile)"] if within is not None else []
    spreads += [f"{between:.0%} between rounds"] if between is not None else []
    if causes:
        noise = f"; times spread by up to {' and '.join(spreads)}" if spreads else ""
        yield f"this machine was busy: {', '.join(causes)}{noise}"
    elif between is not None and between > BETWEEN_ROUNDS:
        yield f"the machine was unsteady: times spread by up to {' and '.join(spreads)}"


def _of_the_search(search: BatchSearch) -> str:
    """Items per second at each batch, or why there are none, on one line."""
    curve = []
    for point in search.points:
        failure = point.round.failure
        curve.append(f"{point.batch}: {failure.cause if failure else rate(throughput(point))}")
    if all(point.round.failure for point in search.points):
        return f"no batch worked on {search.rung} ({', '.join(curve)})"
    why = SEARCH_STOPS[search.stop]
    return f"batch {search.chosen} was found on {search.rung}, until {why} ({', '.join(curve)})"


def _of_parity(record: Record) -> Iterator[str]:
    parity = record.parity
    if parity.status in ("different", "nan"):
        yield f"does not compute the same: {_how_different(parity)}"
    elif parity.undecided and parity.compared:
        yield (
            f"{parity.undecided} of {parity.undecided + parity.compared} tensors prove nothing, because eager "
            f"{record.case.precision} itself is rounding noise there"
        )
    elif parity.status == "unchecked" and parity.reason and good_rounds(record):
        asked_for = parity.reason != NOT_ASKED_FOR
        yield f"was not checked: {parity.reason}" if asked_for else NOT_COMPARED


def _of_net(record: Record) -> Iterator[str]:
    step, profiled = gross(record), net_profile(record)
    if step is None or profiled is None:
        return
    if profiled.reason:
        yield f"no net: {profiled.reason}"
    elif profiled.upper_bound:
        yield f"net is an upper bound: {profiled.method}"
    elif profiled.busy_s is not None and profiled.busy_s > PROFILED * step.mid:
        yield f"its kernels took {seconds(profiled.busy_s)} while profiled, longer than a step: net is gross"


def _of_the_machine(record: Record) -> Iterator[str]:
    throttled = throttled_share(record)
    if throttled:
        fate = "kept, because there are too few others" if _keeps_throttled(record) else "excluded"
        yield f"{throttled:.0%} of its samples were taken under throttling, and {fate}"
    paces = [r.telemetry.cpu_pace for r in good_rounds(record) if r.telemetry and r.telemetry.cpu_pace]
    if any(abs(pace - 1) > PACE for pace in paces):
        yield f"the CPU's speed changed by over {PACE:.0%} within a round: host-bound times are noisy here"


def _of_the_rounds(record: Record) -> Iterator[str]:
    if command := record.environment.flags.get("command"):
        yield command
    yield from dict.fromkeys(note for done in record.rounds for note in done.notes)
    good = good_rounds(record)
    failures = [done.failure.cause for done in record.rounds if done.failure]
    if failures and good:
        yield f"{len(good)} of {len(record.rounds)} rounds succeeded ({failures[0]})"


def _how_different(parity: Parity) -> str:
    if parity.status == "nan":
        return f"{parity.worst} is not finite where the reference is"
    if parity.error is None or parity.tolerance is None:
        return f"{parity.worst} is different"
    # Infinity is stored as 1e300.
    if parity.error >= 1e300:
        return f"{parity.worst} is missing, of another shape or infinitely far off"
    return f"{parity.worst} is off by {parity.error:.2g} (tolerance {parity.tolerance:.2g})"


def _keeps_throttled(record: Record) -> bool:
    """Whether a round has so few other samples that its figure includes the throttled ones."""
    for done in good_rounds(record):
        marked, series = done.throttled.get("pipelined", []), done.find("pipelined")
        if marked and series and len(series.wall_ns) - len(marked) < FEWEST_BLOCKS:
            return True
    return False
