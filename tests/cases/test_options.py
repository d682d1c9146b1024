"""Options: their bounds, and how a wrong one is named."""

import math
from typing import Any

import msgspec
import pytest

from tare.cases.options import QUICK, Options, make_options
from tare.errors import BadInput


def test_nothing_given_is_the_defaults() -> None:
    assert make_options({}) == Options()
    assert make_options({}).round_budget == 4.0


def test_quick_is_one_round() -> None:
    assert make_options({**QUICK, "timeout": 5}) == Options(rounds=1, budget=1.5, width=0.05, timeout=5.0)


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"rounds": 1}, True),
        ({"rounds": 1000}, True),
        ({"rounds": 0}, False),
        ({"rounds": 1001}, False),
        ({"rounds": 2**80}, False),
        ({"rounds": 2.5}, False),
        ({"rounds": "3"}, False),
        ({"rounds": None}, False),
        ({"budget": 1e-9}, True),
        ({"budget": 86_400}, True),
        ({"budget": 0}, False),
        ({"budget": -1.0}, False),
        ({"budget": 86_401}, False),
        ({"budget": math.nan}, False),
        ({"budget": math.inf}, False),
        ({"timeout": 0}, False),
        ({"timeout": math.nan}, False),
        ({"timeout": 604_801}, False),
        ({"width": 0.999}, True),
        ({"width": 1}, False),
        ({"width": 0}, False),
        ({"width": math.nan}, False),
        ({"isolation": "spawn"}, True),
        ({"isolation": None}, False),
        ({"memory": 2**20}, True),
        ({"memory": 2**60}, True),
        ({"memory": None}, True),
        ({"memory": 2**20 - 1}, False),
        ({"memory": 2**60 + 1}, False),
        ({"parity": False}, True),
        ({"parity": 1}, False),
    ],
)
def test_bounds(given: dict[str, Any], allowed: bool) -> None:
    name, value = next(iter(given.items()))
    if allowed:
        assert getattr(make_options(given), name) == value
        return
    with pytest.raises(BadInput, match=rf"{name}.*the plan|the plan.*{name}"):
        make_options(given, "the plan")


def test_an_unknown_option_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(BadInput, match=r"unknown key 'round' in the plan; did you mean 'rounds'.*budget"):
        make_options({"round": 3}, "the plan")


def test_options_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        make_options({}).rounds = 4  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(Options()), type=Options) == Options()


@pytest.mark.parametrize("value", ["thread", "", "Fork"])
def test_another_isolation_is_refused_with_the_valid_ones(value: str) -> None:
    with pytest.raises(BadInput, match=r"unknown isolation '.*' in the plan.*\(valid: fork, spawn\)"):
        make_options({"isolation": value}, "the plan")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rounds": 0}, "plan.toml: 'rounds' cannot be 0: want a whole number >= 1"),
        ({"rounds": "x"}, "plan.toml: 'rounds' cannot be 'x': want a whole number"),
        ({"width": 1.5}, "plan.toml: 'width' cannot be 1.5: want a number < 1"),
        ({"parity": 3}, "plan.toml: 'parity' cannot be 3: want true or false"),
        ({"memory": "much"}, "plan.toml: 'memory' cannot be 'much': want a whole number"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_what_would_do(given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as refusal:
        make_options(given, "plan.toml")
    assert str(refusal.value) == told
