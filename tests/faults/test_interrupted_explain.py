"""Ctrl-C while cases are profiled: what is explained is shown, and --resume goes on from there."""

import json
import signal
from pathlib import Path

import psutil
import pytest
from ceilings import plant_peaks
from commandline import start_tare, tare, wait_until

pytestmark = pytest.mark.full

ASKED = ("explain", "mlp", "mnist_cnn", "--smoke", "--device", "cpu", "--quick", "--budget", "0.3", "--no-stacks",
         "--json")  # fmt: skip


def test_an_interrupted_explanation_goes_on(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    plant_peaks(tmp_path)
    running = start_tare(tmp_path, *ASKED, "--html", str(page))

    def profiled() -> bool:
        assert running.poll() is None, "it ended before anything was profiled"
        return bool(list((tmp_path / "traces").glob("[!p]*.json.gz")))

    wait_until(profiled, 240)
    # Its worker has ended then, and the fork server is alone; the next worker is the second case's, and the first
    # case is explained.
    wait_until(lambda: len(psutil.Process(running.pid).children(recursive=True)) > 1)
    running.send_signal(signal.SIGINT)
    cut = json.loads(running.communicate(timeout=120)[0])
    assert running.returncode == 130
    assert cut["interrupted"]
    assert len(cut["explanations"]) == 1
    assert not page.exists()
    done = tare(tmp_path, *ASKED, "--resume")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert not whole["interrupted"]
    assert [one["workload"] for one in whole["explanations"]] == ["mlp", "mnist_cnn"]
    kept = {one["trace"] for one in cut["explanations"]}
    assert kept < {one["trace"] for one in whole["explanations"]}
