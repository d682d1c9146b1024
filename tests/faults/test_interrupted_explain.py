"""Ctrl-C while cases are profiled: what is explained is shown, and --resume goes on from there."""

import json
import signal
from pathlib import Path

import pytest
from ceilings import plant_peaks
from commandline import planted_tare, start_tare, wait_until

pytestmark = pytest.mark.full

CASES = ["mlp", "planted_hang_after_a_trace"]
ASKED = ("explain", *CASES, "--smoke", "--device", "cpu", "--quick", "--budget", "0.3", "--no-stacks", "--json")


def test_an_interrupted_explanation_goes_on(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    plant_peaks(tmp_path)
    running = start_tare(tmp_path, *ASKED, "--html", str(page))

    def profiled() -> bool:
        assert running.poll() is None, "it ended before the second case was profiled"
        return (tmp_path / "hangs").exists()

    wait_until(profiled, 240)
    running.send_signal(signal.SIGINT)
    cut = json.loads(running.communicate(timeout=120)[0])
    assert running.returncode == 130
    assert cut["interrupted"]
    assert len(cut["explanations"]) == 1
    assert not page.exists()
    done = planted_tare(tmp_path, *ASKED, "--resume")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert not whole["interrupted"]
    assert [one["workload"] for one in whole["explanations"]] == CASES
    kept = {one["trace"] for one in cut["explanations"]}
    assert kept < {one["trace"] for one in whole["explanations"]}
