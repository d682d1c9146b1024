"""The pytest plug-in: a test passes as it was, fails three times slower, and is skipped without its baseline."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# The step computes a little, so that there is work, and sleeps for most of its time.
STEP = """
import time, torch

weights = torch.ones(8, 8)

def work():
    time.sleep({seconds})
    return weights @ weights

def test_speed(tare):
    tare(work, rounds=3, budget=1.0).no_slower_than("main", by=0.5)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "home"))

    def run_tests(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_model=text)
        # By its module, also where the package is installed and offers it as an entry point.
        plugins = ("-p", "no:tare", "-p", "tare.pytest_plugin", "-p", "no:cacheprovider")
        return pytester.runpytest_subprocess("-q", "-rs", *plugins, *options)

    return run_tests


def test_the_package_offers_the_plug_in() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tare": "tare.pytest_plugin"}


def test_the_plug_in_is_light() -> None:
    code = "import sys, tare.pytest_plugin; print({'torch', 'numpy', 'msgspec'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_without_a_baseline_a_test_is_skipped_in_one_line_and_fails_if_strict(run) -> None:  # type: ignore[no-untyped-def]
    line = "*baseline 'main' has no record of test_model.py:test_speed: pytest --tare-save main stores it"
    text = 'def test_speed(tare):\n    tare(print).no_slower_than("main")\n'
    skipped = run(text)
    skipped.assert_outcomes(skipped=1)
    skipped.stdout.fnmatch_lines([line])
    strict = run(text, "--tare-strict")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines([line])


@pytest.mark.full
def test_the_same_step_passes_and_one_three_times_slower_fails(run) -> None:  # type: ignore[no-untyped-def]
    run(STEP.format(seconds=0.004), "--tare-save", "main").assert_outcomes(passed=1)
    run(STEP.format(seconds=0.004)).assert_outcomes(passed=1)
    slower = run(STEP.format(seconds=0.012))
    slower.assert_outcomes(failed=1)
    change, against = "+* % (+* to +* %)", "baseline 'main' (3 fresh processes against 3)"
    slower.stdout.fnmatch_lines([f"*test_model.py:test_speed: {change} against {against}: slower*"])


@pytest.mark.full
def test_a_model_is_compared_with_another_and_with_itself(run) -> None:  # type: ignore[no-untyped-def]
    text = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(size, size) for _ in range(4)])

        def forward(self, x):
            return self.layers(x)

    def test_sizes(tare):
        small = tare(Net(64), torch.randn(8, 64), rounds=3, budget=1.0)
        large = tare(Net(768), torch.randn(64, 768), rounds=3, budget=1.0)
        assert small.gross.median < large.gross.median
        small.no_slower_than(large, by=0.05)
        large.no_slower_than(small, by=0.05)
    """
    compared = run(text)
    compared.assert_outcomes(failed=1)
    compared.stdout.fnmatch_lines(["*test_sizes.2: *x (*) against test_model.py:test_sizes (*): slower*"])
