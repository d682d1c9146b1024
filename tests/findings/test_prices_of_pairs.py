"""Habits and their twins, recorded: each habit is seen, its twin is not, and its price is what the remedy gave
back."""

from functools import lru_cache
from pathlib import Path

import pytest
from torch_table import assert_same_table

from tare.findings.context import Scene
from tare.findings.find import find
from tare.findings.finding import Finding, severity_of
from tare.findings.registry import all_rules
from tare.trace.read import read

FOLDER = Path(__file__).parent / "pairs"
HABITS = sorted(path.name.removeprefix("habit-").removesuffix(".json.gz") for path in FOLDER.glob("habit-*"))
# Of what this costs, a trace of the slow way shows only a part.
SHOWN_IN_PART = {"channels-first"}


@lru_cache
def scene(label: str, name: str) -> Scene:
    trace = read(FOLDER / f"{label}-{name}.json.gz")
    return Scene(trace, trace.metadata["tare_recorded"]["gross_ns"] / 1e9)


def found(label: str, name: str) -> Finding | None:
    """What the habit's rule says of the habit or of its twin; a rule of two traces sees the other one before."""
    rule = all_rules()[scene(label, name).trace.metadata["tare_recorded"]["rule"]]
    other = scene("twin" if label == "habit" else "habit", name)
    return next(iter(find(scene(label, name), other if rule.pair else None, [rule])), None)


@pytest.mark.parametrize("name", HABITS)
def test_the_habit_is_seen_and_its_twin_is_not(name: str) -> None:
    seen = found("habit", name)
    assert seen is not None
    assert seen.places
    assert seen.severity == severity_of(seen.gain_share)
    assert found("twin", name) is None


@pytest.mark.parametrize("name", HABITS)
def test_the_price_is_what_the_remedy_gave_back(name: str) -> None:
    """Within a factor of two; a lower bound need not be near, but must not be more."""
    priced = found("habit", name)
    assert priced is not None
    assert priced.gain_s is not None
    habit, twin = scene("habit", name).gross_s, scene("twin", name).gross_s
    assert habit is not None
    assert twin is not None
    real = habit - twin
    if priced.rule in SHOWN_IN_PART:
        assert priced.at_least
        assert priced.gain_s < real
    else:
        assert real / 2 < priced.gain_s < 2 * real, (priced.gain_s, real)
        assert not priced.at_least or priced.gain_s < real


@pytest.mark.parametrize("label", ["habit", "twin"])
@pytest.mark.parametrize("name", HABITS)
def test_the_table_of_operators_is_that_of_key_averages(name: str, label: str) -> None:
    trace = scene(label, name).trace
    assert_same_table(trace, trace.metadata["tare_recorded"]["averages"])
