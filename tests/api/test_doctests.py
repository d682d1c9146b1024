"""The examples in the documentation of the API run."""

import doctest
import importlib
from pathlib import Path

import pytest

import tare

SLOW = [pytest.param(name, marks=pytest.mark.full) for name in ("explain", "ladder")]


@pytest.mark.parametrize("name", ["compare", "measure", "stopwatch", *SLOW])
def test_the_example_of_a_function_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    module = importlib.import_module(f"tare.api.{name}")
    assert name in tare.__all__
    outcome = doctest.testmod(module)
    assert outcome.attempted >= 2
    assert outcome.failed == 0
