"""tare train --prove and tare frames with programs that are not there, say nothing or say nonsense: one line for
each, and nothing lost of the others."""

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from commandline import planted_tare, start_tare, wait_until

from tare.system.home import home_folder

PLUGINS = "planted_programs"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of its own, with the programs that are built already."""
    (tmp_path / "native").symlink_to(home_folder("native"))
    return tmp_path


def failures(found: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {
        one["case"]["rung"]: (one["failure"]["cause"], one["failure"]["message"])
        for one in found
        if one["failure"]
    }


@pytest.mark.full
@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_frames_says_of_each_rung_what_failed_and_counts_the_others(home: Path, jobs: tuple[str, ...]) -> None:
    rungs = "planted_absent,planted_refusing,planted_silent,planted_babbling,eager"
    done = planted_tare(
        home, "frames", "mlp", "--rung", rungs, "--device", "cpu", "--json", *jobs, TARE_PLUGINS=PLUGINS
    )
    assert done.returncode == 1, done.stderr
    depths = json.loads(done.stdout)["depths"]
    failed = failures(depths)
    assert failed["planted_absent"] == (
        "not-installed", "cannot start /no/such/program: No such file or directory"
    )  # fmt: skip
    # Prepared ahead or not: half a staged folder is no staged folder.
    assert failed["planted_refusing"] == ("unsupported", "a planted operator")
    assert failed["planted_silent"][0] == failed["planted_babbling"][0] == "no-result"
    assert "cannot be read" in failed["planted_babbling"][1]
    (eager,) = (depth for depth in depths if depth["case"]["rung"] == "eager")
    assert eager["stack"]


@pytest.mark.full
def test_prove_says_of_each_rung_what_failed(home: Path) -> None:
    rungs = "planted_absent,planted_refusing,planted_silent,planted_babbling,eager"
    asked = ("train", "mlp", "--rung", rungs, "--device", "cpu", "--prove", "2", "--json")
    done = planted_tare(home, *asked, TARE_PLUGINS=PLUGINS)
    assert done.returncode == 1, done.stderr
    curves = json.loads(done.stdout)["curves"]
    failed = failures(curves)
    assert {rung: cause for rung, (cause, _) in failed.items()} == {
        "planted_absent": "not-installed",
        "planted_refusing": "unsupported",
        "planted_silent": "no-result",
        "planted_babbling": "no-result",
    }
    assert "no losses that can be read" in failed["planted_silent"][1]
    assert [curve["parity"]["status"] for curve in curves if not curve["failure"]] == ["same"]


@pytest.mark.full
def test_a_reference_that_fails_is_said_of_its_cases_and_the_others_go_on(home: Path) -> None:
    asked = ("train", "planted_no_reference", "--rung", "eager,torchscript", "--device", "cpu", "--prove", "2")
    done = planted_tare(home, *asked, "--batch", "32,16", TARE_PLUGINS=PLUGINS)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    said = [line.strip() for line in done.stdout.splitlines() if "planted reference" in line]
    reason = "the reference failed: exception, ValueError: a planted reference"
    assert said == [f"eager: {reason}", f"torchscript: {reason}"]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("eager", "torchscript"))]
    assert [(row[0], row[-1]) for row in rows] == [
        ("eager", "unchecked"), ("torchscript", "unchecked"), ("eager", "same"), ("torchscript", "same")
    ]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_proof_shows_the_curves_that_are_there(home: Path, number: signal.Signals) -> None:
    asked = ("train", "mlp", "--rung", "eager,planted_hanging", "--device", "cpu", "--prove", "2", "--json")
    running = start_tare(home, *asked, plugins=PLUGINS)
    wait_until((home / "begun").exists)
    family = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(number)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert stderr.endswith("tare: interrupted: the curves that are complete are shown, the others are missing\n")
    proof = json.loads(stdout)
    assert proof["interrupted"]
    assert [curve["case"]["rung"] for curve in proof["curves"]] == ["eager"]
    wait_until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family))
