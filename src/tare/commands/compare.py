"""`tare compare` from request to report."""

from collections.abc import Sequence

from tare.cases.case import Case, key_matches
from tare.errors import BadInput, unknown
from tare.guard.changes import Report
from tare.guard.compare import Rules, compare_selections
from tare.store.database import Store
from tare.store.selection import select_records


def compare_stored(
    a: str, b: str, rules: Rules, store: str | None, force: bool, rungs: Sequence[str], pattern: str | None
) -> Report:
    """`tare compare` of these rungs, or all, and of the cases whose keys match the pattern."""
    with Store(store, reading=True) as opened:
        sides = [select_records(text, opened) for text in (a, b)]
    available = {record.case.rung for side in sides for record in side.records}
    for rung in rungs:
        if rung not in available:
            raise unknown("rung", rung, available, "--rung")

    def is_chosen(case: Case) -> bool:
        return (not rungs or case.rung in rungs) and (pattern is None or key_matches(case.family, pattern))

    chosen = [side._replace(records=[r for r in side.records if is_chosen(r.case)]) for side in sides]
    for before, side in zip(sides, chosen, strict=True):
        if not side.records:
            example = min(r.case.key for r in before.records)
            raise BadInput(f"no record of '{side.label}' matches --rung and --case (one of them is {example})")
    families = [{record.case.family for record in side.records} for side in chosen]
    if not families[0] & families[1]:
        raise BadInput(f"'{a}' and '{b}' have no case in common")
    return compare_selections(chosen[0], chosen[1], rules, force)
