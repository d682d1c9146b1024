"""Whether a stored baseline can stand for what is measured here: the plan's cases, this machine, its version."""

from collections.abc import Sequence

import msgspec

from tare.cases.case import Case
from tare.errors import BadInput
from tare.guard.comparable import split_differences
from tare.records.environment import VARIABLE, Difference, Environment, environment_differences
from tare.records.record import Record


def standing(stored: Sequence[Record], cases: Sequence[Case], name: str) -> list[Record]:
    """The records of a baseline that a plan's cases are compared with. BadInput where there is none: a check that
    compares nothing would find nothing, and pass."""
    wanted = {case.key for case in cases}
    found = [record for record in stored if record.case.key in wanted]
    if found or not cases:
        return found
    has = stored[0].case.key + (f" and {len(stored) - 1} more" if len(stored) > 1 else "")
    raise BadInput(
        f"no case of the plan is in baseline '{name}': {cases[0].key} is not; it has {has} "
        f"(tare baseline show {name})"
    )


def differences_here(
    records: Sequence[Record], environment: Environment
) -> tuple[list[Difference], list[Difference]]:
    """What differs between any of a baseline's records and this machine: what is compared, and what hinders it. A
    baseline may hold records of several machines; one of another is enough to hinder."""
    here = _without_pins(environment)
    pairs = []
    for record in {record.environment.base_id: record for record in records}.values():
        before = msgspec.structs.replace(record, environment=_without_pins(record.environment))
        pairs.append((before, msgspec.structs.replace(record, environment=here)))
    return split_differences(pairs)


def another_version(records: Sequence[Record], environment: Environment) -> list[Difference]:
    """Where the interpreter given as the baseline's is not what the baseline was measured with."""
    found: dict[Difference, None] = {}
    for record in {record.environment.base_id: record for record in records}.values():
        for one in environment_differences(_without_pins(record.environment), _without_pins(environment)):
            if one.group == "software":
                found[one] = None
    return list(found)


def _without_pins(environment: Environment) -> Environment:
    """Without the flags that a worker pins for its case: a machine that was only probed has none of them."""
    flags = {name: value for name, value in environment.flags.items() if name.startswith(VARIABLE)}
    return msgspec.structs.replace(environment, flags=flags)
