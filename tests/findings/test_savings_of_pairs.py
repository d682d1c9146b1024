"""Recorded pairs of a program with an inefficiency and its fixed version: the rule fires on the first only, and
its saving is what the fix saved."""

from functools import lru_cache
from pathlib import Path

import pytest
from torch_table import assert_same_table

from tare.findings.context import Context
from tare.findings.finding import Finding, all_rules, find, severity_of
from tare.trace.read import read

FOLDER = Path(__file__).parent / "pairs"
NAMES = sorted(
    path.name.removeprefix("inefficient-").removesuffix(".json.gz") for path in FOLDER.glob("inefficient-*")
)
# A trace of the slow version shows only a part of the saving.
SHOWN_IN_PART = {"channels-first"}


@lru_cache
def context(label: str, name: str) -> Context:
    trace = read(FOLDER / f"{label}-{name}.json.gz")
    return Context(trace, trace.metadata["tare_recorded"]["gross_ns"] / 1e9)


def finding_of(label: str, name: str) -> Finding | None:
    """What the pair's rule says of one version; a rule that compares two traces gets the other version as
    before."""
    rule = all_rules()[context(label, name).trace.metadata["tare_recorded"]["rule"]]
    other = context("fixed" if label == "inefficient" else "inefficient", name)
    return next(iter(find(context(label, name), other if rule.pair else None, [rule])), None)


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_fires_on_the_inefficient_version_only(name: str) -> None:
    finding = finding_of("inefficient", name)
    assert finding is not None
    assert finding.locations
    assert finding.severity == severity_of(finding.saving_share)
    assert finding_of("fixed", name) is None


@pytest.mark.parametrize("name", NAMES)
def test_the_saving_is_what_the_fix_saved(name: str) -> None:
    """Within a factor of two; a lower bound need not be near, but must not be more."""
    finding = finding_of("inefficient", name)
    assert finding is not None
    assert finding.saving_s is not None
    slow_s, fixed_s = context("inefficient", name).gross_s, context("fixed", name).gross_s
    assert slow_s is not None
    assert fixed_s is not None
    saved_s = slow_s - fixed_s
    if finding.rule in SHOWN_IN_PART:
        assert finding.bound == "at least"
        assert finding.saving_s < saved_s
    else:
        assert saved_s / 2 < finding.saving_s < 2 * saved_s, (finding.saving_s, saved_s)
        assert finding.bound != "at least" or finding.saving_s < saved_s


@pytest.mark.parametrize("label", ["inefficient", "fixed"])
@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_operators_is_that_of_key_averages(name: str, label: str) -> None:
    trace = context(label, name).trace
    assert_same_table(trace, trace.metadata["tare_recorded"]["averages"])
