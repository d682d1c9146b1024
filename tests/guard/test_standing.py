"""A stored baseline that does not stand for what is measured here is refused before anything is."""

import msgspec
import pytest
from builders import ENVIRONMENT, make_case, make_record

from tare.errors import BadInput
from tare.guard.standing import another_version, differences_here, standing

CASES = [make_case(batch=n) for n in (1, 2)]
ELSEWHERE = msgspec.structs.replace(ENVIRONMENT, machine={"cpu": "another", "cores": "2", "system": "Linux"})
OLDER = msgspec.structs.replace(ENVIRONMENT, software={**ENVIRONMENT.software, "torch": "2.9.1"})


def test_a_baseline_without_any_case_of_the_plan_is_refused_by_name() -> None:
    other = [make_record(make_case(batch=n)) for n in (8, 9, 10)]
    with pytest.raises(BadInput) as raised:
        standing(other, CASES, "main")
    for part in ("baseline 'main'", CASES[0].key, other[0].case.key, "and 2 more"):
        assert part in str(raised.value)


def test_what_the_plan_does_not_measure_is_left_out() -> None:
    stored = [make_record(make_case(batch=n), id=f"r{n}") for n in (1, 8)]
    assert [record.id for record in standing(stored, CASES, "main")] == ["r1"]


@pytest.mark.parametrize("order", [1, -1])
def test_one_record_of_another_machine_hinders_wherever_it_stands(order: int) -> None:
    stored = [make_record(CASES[0], environment=ELSEWHERE), make_record(CASES[1])][::order]
    subjects, hindrances = differences_here(stored, ENVIRONMENT)
    assert subjects == []
    assert [str(one) for one in hindrances] == ["machine.cpu: another against test-cpu"]


def test_another_torch_is_the_point_and_pinned_flags_are_nothing() -> None:
    pinned = msgspec.structs.replace(OLDER, flags={"tf32": "on"})
    subjects, hindrances = differences_here([make_record(CASES[0], environment=pinned)], ENVIRONMENT)
    assert [one.field for one in subjects] == ["software.torch"]
    assert hindrances == []


def test_the_version_is_held_against_every_record() -> None:
    stored = [make_record(CASES[0], environment=OLDER), make_record(CASES[1])]
    assert [one.field for one in another_version(stored, ENVIRONMENT)] == ["software.torch"]
    assert another_version(stored[1:], ENVIRONMENT) == []
