"""Equivalence of paired results within the noise of the reference: known numbers, and how often it errs."""

import numpy as np
import pytest

from tare.stats.equivalence import judge_equivalence

# A standard deviation of exactly 1 %, so that 2 % are allowed.
REFERENCE = [0.90 + 0.01 * z for z in (-1.264911, -0.632456, 0.0, 0.632456, 1.264911)]


def moved(by: float, scatter: float = 0.002) -> list[float]:
    return [value + by + scatter * z for value, z in zip(REFERENCE, (1, -1, 0, 1, -1), strict=True)]


def test_the_interval_is_student_s_and_the_margin_twice_the_deviation() -> None:
    test = judge_equivalence(REFERENCE, moved(0.005), 1e-4)
    assert test.margin == pytest.approx(0.02, rel=1e-4)
    # Student's quantile of four degrees at 95 % is 2.1318; the deviation of the differences is 0.002.
    half = 2.1318 * 0.002 / 5**0.5
    assert test.difference[:3] == pytest.approx((0.005 - half, 0.005, 0.005 + half), rel=1e-3)
    assert (test.verdict, test.pairs) == ("same", 5)


@pytest.mark.parametrize(
    ("by", "scatter", "verdict"),
    [
        (0.0, 0.0, "same"),
        (0.03, 0.002, "higher"),
        (-0.03, 0.002, "lower"),
        (0.02, 0.002, "undecided"),
        (0, 0.05, "undecided"),
    ],
)
def test_the_verdict_follows_from_where_the_interval_lies(by: float, scatter: float, verdict: str) -> None:
    assert judge_equivalence(REFERENCE, moved(by, scatter), 1e-4).verdict == verdict


def test_a_reference_without_noise_allows_one_image() -> None:
    assert judge_equivalence([0.9] * 5, [0.9005] * 5, 0.001).verdict == "same"
    assert judge_equivalence([0.9] * 5, [0.902] * 5, 0.001).verdict == "higher"


@pytest.mark.parametrize("runs", [0, 1])
def test_one_run_decides_nothing(runs: int) -> None:
    test = judge_equivalence([0.9] * runs, [0.9] * runs, 0.001)
    assert (test.verdict, test.pairs, test.difference.sound) == ("undecided", runs, False)


def test_how_often_the_verdict_errs_with_ten_runs() -> None:
    """The margin is an estimate itself. Rungs that are exactly two deviations apart are called the same in one
    training of seven, those that are three apart hardly ever; and equal ones are hardly ever called different."""
    rng = np.random.default_rng(5)
    verdicts: dict[float, list[str]] = {0.0: [], 0.02: [], 0.03: []}
    for _ in range(1000):
        reference = rng.normal(0.9, 0.01, 10)
        for apart, said in verdicts.items():
            said.append(judge_equivalence(reference, apart + rng.normal(0.9, 0.01, 10), 1e-4).verdict)
    assert verdicts[0.02].count("same") < 160
    assert verdicts[0.03].count("same") < 10
    assert verdicts[0.0].count("same") > 900
    assert verdicts[0.0].count("lower") + verdicts[0.0].count("higher") == 0
