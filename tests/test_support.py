"""What the tests share, and those on a GPU where no GPU is needed to try it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import planted_tare, tare
from record_inefficiencies import gross_ns
from side_by_side import own_home

from tare.system.home import home, home_folder
from tare.system.locks import machine_lock


def test_homes_of_processes_side_by_side_share_what_is_built_and_no_lock(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    (home_folder("native") / "program").touch()
    with own_home(tmp_path_factory):
        # Waiting for a lock that is our own would never end.
        assert home() != tmp_path
        with machine_lock(tmp_path), machine_lock(home()):
            assert (home_folder("native") / "program").exists()
    assert home() == tmp_path


def test_a_process_alone_keeps_the_usual_home(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with own_home(tmp_path_factory):
        assert home() == tmp_path


@pytest.mark.parametrize(("budget_s", "blocks"), [(0.0, 1), (60.0, 5)])
def test_a_step_is_timed_in_blocks_until_the_budget_is_spent(budget_s: float, blocks: int) -> None:
    waits: list[None] = []
    found = gross_ns([lambda: None], 5, most=0.0, budget_s=budget_s, synchronize=lambda: waits.append(None))
    # Twice around each of the two steps that find out how many make a block; then once a block.
    assert len(waits) == 4 + blocks
    assert found[0] > 0


@pytest.mark.parametrize("args", [("list", "workloads", "mlp"), ("frobnicate",), ("show",), ("--version",)])
def test_a_command_that_is_forked_is_as_one_in_an_interpreter_of_its_own(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    forked = tare(tmp_path, *args)
    own = subprocess.run(
        [sys.executable, "-m", "tare", *args],
        env={**os.environ, "TARE_HOME": str(tmp_path), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)


def test_a_forked_command_has_its_own_environment(tmp_path: Path) -> None:
    """What one is told is not told to the next; and what only a new interpreter can be told, a new one is."""
    assert "planted_tiny" in planted_tare(tmp_path, "list", "workloads").stdout
    assert "planted_tiny" not in tare(tmp_path, "list", "workloads").stdout
    assert "µ" in tare(tmp_path, "list", "findings").stdout
    assert "µ" not in tare(tmp_path, "list", "findings", PYTHONIOENCODING="ascii").stdout


@pytest.mark.parametrize("plugin", ["planted", "planted_programs"])
def test_what_is_planted_leaves_torch_to_the_workers(plugin: str) -> None:
    """Every command imports the plug-ins; none should take the two seconds that torch does."""
    look = f"import sys, {plugin}; sys.exit('torch' in sys.modules)"
    folder = str(Path(__file__).parent / "support")
    paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    assert subprocess.run([sys.executable, "-c", look], env=environment, timeout=100).returncode == 0
