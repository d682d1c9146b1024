"""A bisection as people read it: the culprit first, who else is suspect, what was skipped; 100 columns."""

import os
from typing import Any

from rich.console import Console

from tare.bisect.journal import SkippedCandidate
from tare.bisect.loop import BisectResult, FoundCulprit
from tare.report.bisect import bisect_view, short
from tare.report.numbers import change_text

SHA = "0123456789abcdef0123456789abcdef01234567"


def shown(**overrides: Any) -> str:
    fields: dict[str, Any] = {
        "verdict": "found", "good": "a" * 40, "bad": "b" * 40, "ratio": 1.05, "low": 1.04,
        "high": 1.06, "candidates": 64, "runs": 31, "measured": {"a": 5, "b": 6}, "culprits": [], "skipped": [],
        "journal": "/j", "noise": 0.02,
    }  # fmt: skip
    console = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: PTH123, SIM115
    console.print(bisect_view(BisectResult(**(fields | overrides))))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    return text


def culprit(**overrides: Any) -> FoundCulprit:
    fields: dict[str, Any] = {
        "culprit": SHA, "title": "Make it slow", "parent": "c" * 40, "suspects": [SHA], "probability": 0.991,
        "ratio": 1.07, "low": 1.05, "high": 1.09, "before": 1.0, "after": 1.07, "runs": (5, 6),
        "changes": ["kernels: 40 to 41"],
    }  # fmt: skip
    return FoundCulprit(**(fields | overrides))


def test_a_culprit_is_named_with_its_size_and_what_changed() -> None:
    text = shown(culprits=[culprit()])
    assert text.startswith("0123456789ab Make it slow")
    assert "+7.0 % (+5.0 to +9.0 %) against cccccccccccc" in text
    assert "changed: kernels: 40 to 41" in text
    assert "31 runs of 2 of 64 candidates" in text
    assert "could not be measured" not in text


def test_suspects_and_skipped_are_named() -> None:
    skipped = [SkippedCandidate(candidate=3, label="v3", stage="build", reason="no compiler")]
    text = shown(culprits=[culprit(suspects=["v3", SHA])], skipped=skipped)
    assert "could not be measured: v3" in text
    assert "skipped v3: cannot build: no compiler" in text


def test_no_verdict_is_said_plainly() -> None:
    assert "do not differ" in shown(verdict="no-difference")
    assert "nothing to compare with" in shown(verdict="ends-failed", ratio=None, low=None, high=None)
    text = shown(verdict="undecided", probable={SHA: 0.6, "v2": 0.3})
    assert "undecided" in text
    assert "0123456789ab  60%" in text
    assert "--resume" in shown(interrupted=True)


def test_a_label_that_is_no_commit_stays_whole() -> None:
    assert short(SHA) == "0123456789ab"
    assert short("x" * 40) == "x" * 40
    assert change_text(0.95, None, None) == "-5.0 %"
