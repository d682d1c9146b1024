"""Which node measures which ladder: pure decisions, without a clock and without a machine.

All rungs of a ladder are measured on one node, and all ladders that nodes of one kind can measure are measured on
that kind: records of different machines are not compared.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tare.cases.case import Case
from tare.execute.runner import ladders

# A ladder that has lost so many nodes is recorded as failed: it may be what ends them.
MOST_LOSSES = 3
# A program that was lost on a node that is still there is started again so often.
MOST_RESTARTS = 2


@dataclass(eq=False)
class LadderPortion:
    """Cases that are measured together on one node: a ladder, or the part of it that one node can measure.
    `able` are the nodes that can; `home` is the one that has measured rounds of it already."""

    cases: list[Case]
    able: list[str]
    home: str = ""
    lost: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        case = self.cases[0]
        rungs = "" if len(self.cases) == 1 else f" and {len(self.cases) - 1} more rungs"
        return f"{case.workload} {case.rung}{rungs} {case.mode} b{case.batch}"


def make_portions(cases: Iterable[Case], measurable: Mapping[str, Collection[Case]]) -> list[LadderPortion]:
    """The ladders of the cases that some node can measure. A ladder that no node can measure whole is split: as
    many of its rungs as one node can measure stay together."""
    portions = []
    for ladder in ladders(cases):
        rest = ladder
        while rest:
            possible = {name: [case for case in rest if case in known] for name, known in measurable.items()}
            largest = max(possible.values(), key=len, default=[])
            if not largest:
                break
            able = [name for name, known in possible.items() if set(largest) <= set(known)]
            portions.append(LadderPortion(largest, able))
            rest = [case for case in rest if case not in largest]
    return portions


class Schedule:
    """What is pending, what each node does, and who may do what next. `kinds` says of each node which machines it
    is like."""

    def __init__(self, portions: Sequence[LadderPortion], kinds: Mapping[str, str]) -> None:
        self.pending = list(portions)
        self.measuring: dict[str, LadderPortion] = {}
        # Of portions that no node will be given any more.
        self.given_up: list[LadderPortion] = []
        self._kinds = dict(kinds)
        self._sizes = {kind: list(kinds.values()).count(kind) for kind in kinds.values()}
        self._usable = set(kinds)
        self._restarting: set[str] = set()
        self._restarts: dict[str, int] = {}

    @property
    def usable(self) -> set[str]:
        return self._usable - self._restarting

    @property
    def is_over(self) -> bool:
        """Whether nothing can be measured any more: what is still pending waits for other nodes."""
        return not self.measuring and not any(self._candidates(portion) for portion in self.pending)

    def assign(self) -> list[tuple[str, LadderPortion]]:
        """The next portion for every node that has none, in the order of the plan."""
        assigned = []
        for name in sorted(self.usable - self.measuring.keys()):
            portion = next((each for each in self.pending if name in self._candidates(each)), None)
            if portion is not None:
                self.pending.remove(portion)
                self.measuring[name] = portion
                assigned.append((name, portion))
        return assigned

    def finish(self, name: str) -> LadderPortion:
        return self.measuring.pop(name)

    def lose(self, name: str, is_gone: bool) -> tuple[LadderPortion | None, bool]:
        """The portion that the node did not finish, and whether to start the node's program again. It is measured
        next; on the same node if that comes back, so that its rounds are kept."""
        restarts = self._restarts[name] = self._restarts.get(name, 0) + 1
        comes_back = not is_gone and restarts <= MOST_RESTARTS
        if comes_back:
            self._restarting.add(name)
        else:
            self._leave_out(name)
        portion = self.measuring.pop(name, None)
        if portion is not None:
            portion.lost.append(name)
            portion.home = name if comes_back else ""
            if len(portion.lost) >= MOST_LOSSES and self._usable:
                self.given_up.append(portion)
            else:
                self.pending.insert(0, portion)
        return portion, comes_back

    def came_back(self, name: str) -> None:
        self._restarting.discard(name)

    def _leave_out(self, name: str) -> None:
        self._usable.discard(name)
        self._restarting.discard(name)
        for portion in self.pending:
            if portion.home == name:
                portion.home = ""

    def _candidates(self, portion: LadderPortion) -> list[str]:
        """The nodes that may measure a portion: the one that has begun it, or those of the kind that most of the
        nodes at the beginning had and that is still there."""
        able = [name for name in portion.able if name in self._usable]
        if portion.home in able:
            return [portion.home]
        kinds = {self._kinds[name] for name in able}
        chosen = max(kinds, key=lambda kind: (self._sizes[kind], kind), default=None)
        return [name for name in able if self._kinds[name] == chosen]
