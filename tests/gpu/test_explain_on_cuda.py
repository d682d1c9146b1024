"""explain and peaks from the command line on a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tare.trace.read import read

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def tare(home: Path, *args: str) -> dict[str, Any]:
    environment = {**os.environ, "TARE_HOME": str(home)}
    command = [sys.executable, "-m", "tare", *args, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_peaks_are_of_this_world(home: Path) -> None:
    """Any data-centre GPU of the last years lies within these."""
    peaks = {
        one["name"]: one["value"] for one in tare(home, "peaks", "--device", "cuda", "--rounds", "1")["peaks"]
    }
    assert 20e12 < peaks["matrix:fp32"] < peaks["matrix:tf32"] < peaks["matrix:bf16"] < 5e15
    assert 0.2e12 < peaks["bandwidth"] < 20e12
    assert 0.5e-6 < peaks["launch"] < 50e-6
    assert peaks["copy:host-to-device:pageable"] < peaks["copy:host-to-device:pinned"] < 1e12


def test_a_graph_removes_what_eager_waits_for(home: Path) -> None:
    case = ("mlp", "--device", "cuda", "--rung", "eager", "--against", "cudagraph", "--quick")
    document = tare(home, "explain", *case)
    eager, graph = (one["waterfall"] for one in document["explanations"])
    for fall in (eager, graph):
        assert sum(segment["ns"] for segment in fall["segments"]) == fall["gross"]
    assert document["explanations"][1]["breakdown"]["graph_launches"] > 0
    removed = {part["name"]: part["removed"] for part in document["against"][0]["parts"]}
    assert sum(removed.values()) == eager["gross"] - graph["gross"]
    assert removed["dispatch"] > 0
    assert document["explanations"][0]["roofline"]["flops"] > 0
    assert document["explanations"][0]["places"]["causes"][0]["places"]


def test_a_device_bound_step_gives_back_what_its_finding_says_and_no_more_than_its_host_allows(home: Path) -> None:
    """With TF32 the device needs only a part of its time, and the step cannot become faster than its host. The
    batch is so large that even a slow host does not hold up the fast step."""
    case = ("stable_diffusion_text_encoder", "--device", "cuda", "--batch", "128", "--quick")
    document = tare(home, "explain", *case, "--precision", "fp32", "--no-stacks")
    (slow,) = document["explanations"]
    findings = {finding["rule"]: finding for finding in document["diagnoses"][0]["findings"]}
    saving = findings["tf32-off"]["saving_share"]
    (fast,) = tare(home, "run", *case, "--rung", "eager", "--precision", "tf32")["records"]
    blocks = next(series for series in fast["rounds"][0]["series"] if series["kind"] == "pipelined")
    after = median(wall / steps for wall, steps in zip(blocks["wall_ns"], blocks["steps"], strict=True))
    given_back = 1 - after / slow["waterfall"]["gross"]
    assert given_back / 2 < saving < given_back * 2
    host = read(Path(slow["trace"])).metadata["tare_profiled"]["host_ns"]
    assert 0 < host < slow["waterfall"]["gross"]
    assert saving <= 1 - host / slow["waterfall"]["gross"]


def test_what_only_the_profiler_keeps_is_no_leak(home: Path) -> None:
    """torch.func's tensors stay while their shapes are recorded: so they are not, and the step leaves nothing."""
    document = tare(home, "explain", "lennard_jones", "--device", "cuda", "--quick", "--no-stacks")
    assert any("without shapes" in note for note in document["explanations"][0]["notes"])
    assert "memory-growth" not in [finding["rule"] for finding in document["diagnoses"][0]["findings"]]
