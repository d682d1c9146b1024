"""Which records may be compared: other versions yes, other machines no, and the differing field is named."""

from typing import Any

import msgspec
import pytest
from builders import ENVIRONMENT, make_case, make_record, make_round

from tare.errors import BadInput
from tare.guard.comparable import (
    baseline_differences,
    baseline_records,
    order_within_pairs,
    refuse_differences,
    split_differences,
    version_differences,
    were_interleaved,
)
from tare.records.environment import Environment
from tare.records.record import Record

CASES = [make_case(batch=n) for n in (1, 2)]
ELSEWHERE = msgspec.structs.replace(ENVIRONMENT, machine={"cpu": "another", "cores": "2", "system": "Linux"})
OLDER = msgspec.structs.replace(ENVIRONMENT, software={**ENVIRONMENT.software, "torch": "2.9.1"})


def changed(group: str, **fields: str) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, **{group: {**getattr(ENVIRONMENT, group), **fields}})


def started(*times: str) -> Record:
    rounds = [make_round(i, started=f"2026-01-02T03:{time}+00:00") for i, time in enumerate(times)]
    return make_record(rounds=rounds)


def test_versions_are_the_subject() -> None:
    subjects, blocking = split_differences([(ENVIRONMENT, changed("software", torch="2.11.0"))])
    assert [str(difference) for difference in subjects] == ["software.torch: 2.10.0 against 2.11.0"]
    assert not blocking
    refuse_differences(blocking)


@pytest.mark.parametrize(
    ("group", "fields"),
    [
        ("machine", {"cpu": "another"}),
        ("machine", {"gpu": "H200"}),
        ("flags", {"tf32": "on"}),
        ("software", {"tare": "9"}),
    ],
)
def test_machines_flags_and_tare_itself_block_a_comparison(group: str, fields: dict[str, str]) -> None:
    subjects, blocking = split_differences([(ENVIRONMENT, changed(group, **fields))])
    assert not subjects
    (name,) = fields
    with pytest.raises(BadInput, match=rf"not comparable: {group}\.{name}: .* against {fields[name]} \(--force"):
        refuse_differences(blocking)


def test_a_field_that_the_user_named_is_a_subject() -> None:
    subjects, blocking = split_differences([(ENVIRONMENT, changed("machine", cpu="another"))], {"machine.cpu"})
    assert len(subjects) == 1
    assert not blocking


def test_a_field_is_named_once_however_many_cases_differ_in_it() -> None:
    pair = (ENVIRONMENT, changed("machine", a="1", b="2", c="3", d="4", e="5"))
    _, blocking = split_differences([pair] * 10)
    assert len(blocking) == 5
    with pytest.raises(BadInput, match="and 2 more fields"):
        refuse_differences(blocking)


@pytest.mark.parametrize(
    ("a", "b", "interleaved"),
    [
        (("00:00", "00:20", "00:40"), ("00:10", "00:30", "00:50"), True),
        (("00:00", "00:30", "00:40"), ("00:10", "00:20", "00:50"), True),
        (("00:00", "00:10", "00:20"), ("01:00", "01:10", "01:20"), False),
        (("00:00", "00:10"), ("00:05", "00:15", "00:25"), False),
        (("00:00",), ("00:05",), False),
        (("00:00", "00:00"), ("00:00", "00:00"), False),
        (("no", "time"), ("at", "all"), False),
    ],
)
def test_interleaved_rounds_are_recognised(a: Any, b: Any, interleaved: bool) -> None:
    assert were_interleaved(started(*a), started(*b)) is interleaved


def test_a_baseline_without_any_case_of_the_plan_is_refused_by_name() -> None:
    other = [make_record(make_case(batch=n)) for n in (8, 9, 10)]
    with pytest.raises(BadInput) as raised:
        baseline_records(other, CASES, "main")
    for part in ("baseline 'main'", CASES[0].key, other[0].case.key, "and 2 more"):
        assert part in str(raised.value)


def test_records_of_other_cases_are_skipped() -> None:
    stored = [make_record(make_case(batch=n), id=f"r{n}") for n in (1, 8)]
    assert [record.id for record in baseline_records(stored, CASES, "main")] == ["r1"]


@pytest.mark.parametrize("order", [1, -1])
def test_one_record_of_another_machine_blocks_the_baseline(order: int) -> None:
    stored = [make_record(CASES[0], environment=ELSEWHERE), make_record(CASES[1])][::order]
    subjects, blocking = baseline_differences(stored, ENVIRONMENT)
    assert subjects == []
    assert [str(difference) for difference in blocking] == ["machine.cpu: another against test-cpu"]


def test_flags_that_a_worker_pins_are_not_compared_with_a_probe() -> None:
    pinned = msgspec.structs.replace(OLDER, flags={"tf32": "on"})
    subjects, blocking = baseline_differences([make_record(CASES[0], environment=pinned)], ENVIRONMENT)
    assert [difference.field for difference in subjects] == ["software.torch"]
    assert blocking == []


def test_the_baselines_interpreter_is_compared_with_every_record() -> None:
    stored = [make_record(CASES[0], environment=OLDER), make_record(CASES[1])]
    assert [difference.field for difference in version_differences(stored, ENVIRONMENT)] == ["software.torch"]
    assert version_differences(stored[1:], ENVIRONMENT) == []


def test_the_order_within_pairs_is_read_from_the_times_of_the_rounds() -> None:
    a, b = started("04:00.100", "04:02.000"), started("04:00.050", "04:03.000")
    assert order_within_pairs(a, b, [0, 1]) == [True, False]
    assert order_within_pairs(b, a, [1]) == [True]
    # Rounds of the same moment, and an import's other texts, do not show it.
    assert order_within_pairs(a, a, [0, 1]) == []
    assert order_within_pairs(a, make_record(rounds=[make_round(0, started="yesterday")]), [0]) == []
