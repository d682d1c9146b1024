"""The order of measurement, and which cases share a reference."""

from collections import Counter

import pytest
from builders import make_case
from hypothesis import given
from hypothesis import strategies as st

from tare.execute.runner import ladders, schedule
from tare.protocol.jobs import reference_case

RUNGS = ("eager", "torchscript", "compile")


def rungs(batch: int) -> list[str]:
    return [f"{name}@{batch}" for name in RUNGS]


def label(rung: str, batch: int) -> str:
    return f"{rung}@{batch}"


def test_rungs_take_turns_and_ladders_do_not() -> None:
    # A grid makes rungs vary slowest or fastest: the order given must not matter.
    cases = [make_case(rung=rung, batch=batch) for rung in RUNGS for batch in (1, 8)]
    order = [(label(case.rung, case.batch), index) for case, index in schedule(cases, 2)]
    one, eight = rungs(1), rungs(8)
    assert [name for name, _ in order] == one + one + eight + eight
    assert [index for _, index in order] == [0, 0, 0, 1, 1, 1] * 2


def test_cases_that_differ_in_nothing_but_the_rung_are_a_ladder() -> None:
    cases = [
        make_case(),
        make_case(mode="train"),
        make_case(rung="compile"),
        make_case(layout="channels-last"),
        make_case(rung="compile", mode="train"),
    ]
    found = [[case.rung for case in ladder] for ladder in ladders(cases)]
    assert found == [["eager", "compile"], ["eager", "compile"], ["eager"]]


@given(
    st.lists(st.tuples(st.sampled_from(RUNGS), st.integers(1, 3)), unique=True, max_size=9),
    st.integers(1, 4),
)
def test_every_case_gets_every_round_once(points: list[tuple[str, int]], rounds: int) -> None:
    cases = [make_case(rung=rung, batch=batch) for rung, batch in points]
    counted = Counter(schedule(cases, rounds))
    assert counted == Counter((case, index) for case in cases for index in range(rounds))


def test_no_cases_no_rounds() -> None:
    assert list(schedule([], 3)) == []


@pytest.mark.parametrize(
    "change", [{"rung": "compile"}, {"feed": "pinned"}, {"layout": "channels-last"}, {"threads": 4}]
)
def test_what_must_not_change_a_result_shares_its_reference(change: dict[str, object]) -> None:
    case = make_case(mode="train", **change)
    assert reference_case(case) == make_case(mode="train")


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "lstm"},
        {"mode": "infer", "optimizer": None},
        {"device": "cuda"},
        {"precision": "bf16"},
        {"batch": 7},
        {"sizes": {"width": 65}},
        {"optimizer": "adam"},
    ],
)
def test_what_changes_a_result_has_a_reference_of_its_own(change: dict[str, object]) -> None:
    train = {"mode": "train", "optimizer": "sgd"}
    assert reference_case(make_case(**train | change)) != reference_case(make_case(**train))
