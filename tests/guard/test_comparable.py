"""What may be compared: versions yes, machines no, and the field is named."""

from typing import Any

import msgspec
import pytest
from builders import ENVIRONMENT, make_record, make_round

from tare.errors import BadInput
from tare.guard.comparable import refuse, split_differences, were_interleaved
from tare.records.record import Record


def with_environment(group: str, **fields: str) -> Record:
    changed = {**getattr(ENVIRONMENT, group), **fields}
    return make_record(environment=msgspec.structs.replace(ENVIRONMENT, **{group: changed}))


def started(*times: str) -> Record:
    rounds = [make_round(i, started=f"2026-01-02T03:{time}+00:00") for i, time in enumerate(times)]
    return make_record(rounds=rounds)


def test_versions_are_the_point() -> None:
    subjects, hindrances = split_differences([(make_record(), with_environment("software", torch="2.11.0"))])
    assert [str(one) for one in subjects] == ["software.torch: 2.10.0 against 2.11.0"]
    assert not hindrances
    refuse(hindrances)


@pytest.mark.parametrize(
    ("group", "fields"),
    [
        ("machine", {"cpu": "another"}),
        ("machine", {"gpu": "H200"}),
        ("flags", {"tf32": "on"}),
        ("software", {"tare": "9"}),
    ],
)
def test_machines_flags_and_tare_itself_are_not(group: str, fields: dict[str, str]) -> None:
    subjects, hindrances = split_differences([(make_record(), with_environment(group, **fields))])
    assert not subjects
    (name,) = fields
    with pytest.raises(BadInput, match=rf"not comparable: {group}\.{name}: .* against {fields[name]} \(--force"):
        refuse(hindrances)


def test_what_the_user_named_is_the_point_as_well() -> None:
    subjects, hindrances = split_differences(
        [(make_record(), with_environment("machine", cpu="another"))], meant={"machine.cpu"}
    )
    assert len(subjects) == 1
    assert not hindrances


def test_a_field_is_named_once_however_many_cases_differ_in_it() -> None:
    pair = (make_record(), with_environment("machine", a="1", b="2", c="3", d="4", e="5"))
    _, hindrances = split_differences([pair] * 10)
    assert len(hindrances) == 5
    with pytest.raises(BadInput, match="and 2 more fields"):
        refuse(hindrances)


@pytest.mark.parametrize(
    ("a", "b", "turns"),
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
def test_rounds_that_took_turns_are_recognised(a: Any, b: Any, turns: bool) -> None:
    assert were_interleaved(started(*a), started(*b)) is turns
