"""The ranks of a distributed job explained together: who waits, for whom, and what that rank did meanwhile.

In one rank's trace the rank that everybody waits for looks best: the others are "active" in collectives that
wait for it. Matched across ranks, waiting and transfer are told apart.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from tare.errors import BadInput
from tare.trace.breakdown import Breakdown, breakdown
from tare.trace.collectives import rank_of
from tare.trace.intervals import Integers, Intervals, Mask, intersection, make, total
from tare.trace.matching import MatchedCollectives, match_collectives
from tare.trace.rank_states import RankStates, rank_states
from tare.trace.tables import Trace
from tare.trace.windows import select_steps, windows

# Beginnings that lie closer together than this are not late (ns): two launches differ by as much.
NOT_LATE = 20_000
# A straggler makes the others wait for this share of the windows, and accounts for this part of all lateness.
LEAST_SHARE, LEAST_PART = 0.02, 0.5
MOST_DEEDS = 8
TRANSFER = "transfer"


class RankTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One rank, in nanoseconds over its counted steps: computing + waiting + transfer + moving + idle = window.
    `waiting` and `transfer` are exposed communication before and after the last rank began; `overlapped` is
    beside computing."""

    rank: int
    trace: str
    steps: int
    window: int
    computing: int
    waiting: int
    transfer: int
    moving: int
    idle: int
    overlapped: int
    # The collectives that this rank began last, and for how long the others had usually begun one of them.
    last: int
    late: int
    # What was added to its clock, and the median distance of its ends from those of the first rank after that.
    clock: int
    clock_spread: int


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank did, and for how long (ns)."""

    what: str
    ns: int


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """`late` (ns) is for how long the median of the others was in a collective that this rank had yet to begin;
    `collectives` that it began late at the same moment count once. `did` is what it did for longer than they did
    since the collective before."""

    rank: int
    collectives: int
    late: int
    share: float
    did: list[Deed]


class CriticalPart(msgspec.Struct, frozen=True, kw_only=True):
    """The time (ns) for which the path leads through a rank that does this."""

    rank: int
    what: str
    ns: int


class RankJob(msgspec.Struct, frozen=True, kw_only=True):
    """`imbalance` is the longest computing of a rank over the mean, less one. `critical` adds up to the time
    from the first to the last moment of the windows, the longest part first."""

    ranks: list[RankTimes]
    matched: int
    unmatched: int
    straggler: Straggler | None
    imbalance: float
    critical: list[CriticalPart]
    notes: list[str] = []

    @property
    def shown(self) -> int:
        """The rank that is worth explaining by itself."""
        return self.straggler.rank if self.straggler else self.ranks[0].rank


def explain_job(traces: Sequence[Trace]) -> RankJob:
    """The traces of different ranks, in any order. BadInput where one has no device work, or a rank is there
    twice."""
    traces = [select_steps(trace) for trace in traces]
    numbers = rank_numbers(traces)
    order = np.argsort(numbers, kind="stable").tolist()
    traces, numbers = [traces[i] for i in order], [numbers[i] for i in order]
    parts = [_parts(trace) for trace in traces]
    matched = match_collectives(traces)
    lateness = matched.last_start - matched.usual_start
    delayed = np.maximum(NOT_LATE, 2 * matched.spread.max(initial=0)) <= lateness
    states = [rank_states(trace) for trace in traces]
    ranks = [
        _rank_times(trace, part, state, matched, position, (matched.last == position) & delayed, numbers)
        for position, (trace, part, state) in enumerate(zip(traces, parts, states, strict=True))
    ]
    computing = [rank.computing / max(rank.steps, 1) for rank in ranks]
    mean = sum(computing) / len(computing)
    return RankJob(
        ranks=ranks,
        matched=len(matched.row),
        unmatched=matched.unmatched,
        straggler=_straggler(ranks, states, matched, delayed, numbers),
        imbalance=max(computing) / mean - 1 if mean else 0.0,
        critical=_critical_path(states, matched, numbers),
        notes=_notes(matched, ranks),
    )


def rank_numbers(traces: Sequence[Trace]) -> list[int]:
    """What the traces state; their positions where one states nothing."""
    stated = [rank_of(trace.metadata) for trace in traces]
    known = [number for number in stated if number is not None]
    # The ranks that were merged into one file all state that of the first.
    if len(known) < len(traces) or len({id(trace.metadata) for trace in traces}) < len(traces):
        return list(range(len(traces)))
    if len(set(known)) < len(known):
        twice = next(number for number in known if known.count(number) > 1)
        raise BadInput(f"rank {twice} is there twice: name one trace for each rank of one job")
    return known


def _parts(trace: Trace) -> Breakdown:
    parts = breakdown(trace)
    if parts is None or parts.window == 0:
        raise BadInput(f"the trace {trace.source} has no device work in a step: it is no rank of a job")
    return parts


def _rank_times(
    trace: Trace,
    parts: Breakdown,
    states: RankStates,
    matched: MatchedCollectives,
    position: int,
    ours: Mask,
    numbers: list[int],
) -> RankTimes:
    waiting = _covered(_waits(matched, position), states.exposed, _inside(trace, parts))
    return RankTimes(
        rank=numbers[position],
        trace=trace.source,
        steps=len(parts.steps),
        window=parts.window,
        computing=parts.active,
        waiting=waiting,
        transfer=parts.communicating - waiting,
        moving=parts.movement,
        idle=parts.idle,
        overlapped=parts.communication_overlapped,
        last=int(ours.sum()),
        # Several collectives may be under way at a time, as those of gloo are: lateness in all of them is one.
        late=total(make(matched.usual_start[ours], matched.last_start[ours])),
        clock=int(matched.clock[position]),
        clock_spread=int(matched.spread[position]),
    )


def _inside(trace: Trace, parts: Breakdown) -> Intervals:
    rows = windows(trace, parts.device)
    return make(rows[:, 1], rows[:, 2])


def _waits(matched: MatchedCollectives, position: int) -> Intervals:
    """On the rank's own clock: from its beginning of a collective to the last rank's."""
    here = matched.row[:, position] >= 0
    start, end = matched.start[here, position], matched.end[here, position]
    waits: Intervals = make(start, np.minimum(matched.last_start[here], end)) - matched.clock[position]
    return waits


def _covered(*sets: Intervals) -> int:
    first, *others = sets
    for other in others:
        first = intersection(first, make(*other.T))
    return total(first)


def _straggler(
    ranks: list[RankTimes],
    states: list[RankStates],
    matched: MatchedCollectives,
    delayed: Mask,
    numbers: list[int],
) -> Straggler | None:
    worst = max(range(len(ranks)), key=lambda position: ranks[position].late)
    late, window = ranks[worst].late, max(rank.window for rank in ranks)
    if late < LEAST_SHARE * window or late < LEAST_PART * sum(rank.late for rank in ranks):
        return None
    did: dict[str, float] = {}
    rows = np.flatnonzero((matched.last == worst) & delayed)
    others = [position for position in range(len(ranks)) if position != worst]
    own, *theirs = (
        states[rank].during(
            _since_last(matched, rows, rank, int(states[rank].start.min(initial=np.iinfo(np.int64).max))),
            detailed=True,
        )
        for rank in (worst, *others)
    )
    for what, ns in own.items():
        did[what] = ns - float(np.median([times.get(what, 0) for times in theirs]))
    longest = sorted((what for what in did if did[what] > 0), key=lambda what: -did[what])[:MOST_DEEDS]
    return Straggler(
        rank=numbers[worst],
        collectives=len(rows),
        late=late,
        share=late / window,
        did=[Deed(what=what, ns=round(did[what])) for what in longest],
    )


def _since_last(matched: MatchedCollectives, rows: Integers, position: int, begin: int) -> Intervals:
    """On the rank's own clock, the time before each of these collectives since the one before it had ended, or
    since the rank's beginning."""
    here = np.flatnonzero(matched.row[:, position] >= 0)
    chosen = rows[matched.row[rows, position] >= 0]
    ends = np.sort(matched.end[here, position])
    start = matched.start[chosen, position]
    begin = int((matched.start[here, position] - matched.clock[position]).min(initial=begin))
    begun = np.append(begin + matched.clock[position], ends)[np.searchsorted(ends, start, side="right")]
    since: Intervals = make(begun, start) - matched.clock[position]
    return since


def _critical_path(
    states: list[RankStates], matched: MatchedCollectives, numbers: list[int]
) -> list[CriticalPart]:
    """Backwards from the last end: where a rank is in a collective, the path goes on at the rank that began it
    last; before that, it is what that rank did since it was last in one."""
    clock = matched.clock.tolist()
    begins = [int(state.start.min(initial=np.iinfo(np.int64).max)) for state in states]
    exposed = [state.exposed + clock[rank] for rank, state in enumerate(states)]
    index = [
        {int(row): i for i, row in enumerate(matched.row[:, rank].tolist()) if row >= 0}
        for rank in range(len(states))
    ]
    ends = [int(max(state.end.max(initial=0), state.exposed.max(initial=0))) for state in states]
    rank = int(np.argmax(np.array(ends) + matched.clock))
    moment = ends[rank] + clock[rank]
    own: list[list[tuple[int, int]]] = [[] for _ in states]
    transfers = [0] * len(states)
    last, last_start = matched.last.tolist(), matched.last_start.tolist()
    while moment > begins[rank] + clock[rank]:
        at = int(np.searchsorted(exposed[rank][:, 0], moment, side="left")) - 1
        until = min(int(exposed[rank][at, 1]), moment) if at >= 0 else begins[rank] + clock[rank]
        if until < moment:
            own[rank].append((until - clock[rank], moment - clock[rank]))
            moment = until
            continue
        begin = int(exposed[rank][at, 0])
        found = index[rank].get(int(states[rank].collective[at]))
        # Of an unmatched collective it is not known who waits.
        begun = last_start[found] if found is not None else begin
        reached = min(max(begin, begun), moment)
        transfers[rank] += moment - reached
        if found is not None and begun > begin:
            rank = last[found]
            # On its own clock the last rank may seem to have begun later than others ended.
            reached = min(reached, begun)
        moment = reached
    parts = [CriticalPart(rank=numbers[r], what=TRANSFER, ns=ns) for r, ns in enumerate(transfers) if ns]
    for position, spans in enumerate(own):
        for what, ns in states[position].during(np.array(spans, dtype=np.int64).reshape(-1, 2)).items():
            parts.append(CriticalPart(rank=numbers[position], what=what, ns=ns))
    return sorted(parts, key=lambda part: -part.ns)


def _notes(matched: MatchedCollectives, ranks: list[RankTimes]) -> list[str]:
    notes = []
    if not len(matched.row):
        return ["no collective was found on more than one rank: nothing tells waiting from transfer"]
    if matched.unmatched:
        notes.append(f"{matched.unmatched} collectives are in the trace of one rank only, and match nothing")
    unknown = [rank.rank for rank, row in zip(ranks, matched.row.T, strict=True) if (row < 0).all()]
    if unknown:
        listed = ", ".join(map(str, unknown))
        notes.append(f"no collective of rank {listed} was matched: its clock is not aligned")
    steps = {rank.steps for rank in ranks}
    if len(steps) > 1:
        notes.append(f"the ranks recorded different numbers of steps: {min(steps)} to {max(steps)}")
    return notes
