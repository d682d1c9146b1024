"""Cases in the order in which they are measured: a ladder at a time, its rungs taking turns round by round."""

from collections.abc import Iterable, Iterator

from tare.cases.case import Case


def ladders(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases that differ in nothing but the rung, together, in the order of their first appearance."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.ladder, []).append(case)
    return list(groups.values())


def schedule(cases: Iterable[Case], rounds: int) -> Iterator[tuple[Case, int]]:
    """A B C A B C: slow changes of the machine meet all rungs of a ladder alike."""
    for ladder in ladders(cases):
        for index in range(rounds):
            for case in ladder:
                yield case, index
