"""Drops most raw samples of an old record, and keeps its figures.

What is kept of a series are blocks that were measured: those at 101 evenly spaced ranks of their step times. The
median is kept exactly, and with it every figure and comparison over several rounds; percentiles are kept to within
their own resolution. The interval that a single round gives by itself gets wider, as it should with fewer samples.
"""

from collections.abc import Sequence

import msgspec

from tare.records.figures import FEWEST_BLOCKS
from tare.records.record import MemoryTrace, Record, Round, Series

RANKS = 101
# Of what is kept in its order in time: the warm-up, and memory.
MOMENTS = 101


def thin(record: Record) -> Record:
    """The same record with few samples; the record itself if it has few already."""
    rounds = [_thin_round(round_) for round_ in record.rounds]
    return record if rounds == record.rounds else msgspec.structs.replace(record, rounds=rounds)


def _thin_round(round_: Round) -> Round:
    series, throttled = [], {}
    for each in round_.series:
        marked = set(round_.throttled.get(each.kind, ()))
        kept = _kept(each, marked)
        series.append(_only(each, kept))
        if places := [place for place, index in enumerate(kept) if index in marked]:
            throttled[each.kind] = places
    trace = round_.memory_trace
    return msgspec.structs.replace(
        round_, series=series, throttled=throttled, memory_trace=trace and _only_moments(trace)
    )


def _kept(series: Series, throttled: set[int]) -> list[int]:
    """The indices of the blocks that stay, in their order."""
    count = len(series.wall_ns)
    if series.kind == "warmup":
        return _spaced(range(count), MOMENTS)
    step = series.step_seconds()
    ordered = sorted(range(count), key=step.__getitem__)
    clean = [index for index in ordered if index not in throttled]
    if len(clean) < FEWEST_BLOCKS:
        # The figures of such a round are those of all blocks.
        return sorted(_ranked(ordered, RANKS))
    marked = [index for index in ordered if index in throttled]
    share = min(len(marked), max(round(RANKS * len(marked) / count), 1))
    return sorted([*_ranked(clean, RANKS), *_ranked(marked, share)])


def _ranked(ordered: Sequence[int], most: int) -> list[int]:
    """Evenly spaced ones; of an even number both in the middle, so that the median stays what it was."""
    kept = set(_spaced(ordered, most))
    if len(kept) < len(ordered):
        middle = {ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]}
        below = [index for index in ordered[: len(ordered) // 2] if index in kept - middle]
        above = [index for index in ordered[(len(ordered) + 1) // 2 :] if index in kept - middle]
        # As many on one side as on the other.
        each = min(len(below), len(above))
        kept = {*_spaced(below, each), *middle, *_spaced(above, each)}
    return sorted(kept)


def _spaced(values: Sequence[int], most: int) -> list[int]:
    if len(values) <= most:
        return list(values)
    if most < 2:
        return list(values[:most])
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


def _only(series: Series, kept: Sequence[int]) -> Series:
    if len(kept) == len(series.wall_ns):
        return series

    def chosen(values: list[int]) -> list[int]:
        return [values[index] for index in kept]

    return msgspec.structs.replace(
        series,
        steps=chosen(series.steps),
        wall_ns=chosen(series.wall_ns),
        at_ns=chosen(series.at_ns),
        device_ns=chosen(series.device_ns) if series.device_ns is not None else None,
        blocks=series.blocks or len(series.wall_ns),
    )


def _only_moments(trace: MemoryTrace) -> MemoryTrace:
    kept = _spaced(range(len(trace.at_ns)), MOMENTS)

    def chosen(values: list[int]) -> list[int]:
        return [values[index] for index in kept]

    return MemoryTrace(
        at_ns=chosen(trace.at_ns),
        host=chosen(trace.host),
        device=chosen(trace.device) if trace.device is not None else None,
    )
