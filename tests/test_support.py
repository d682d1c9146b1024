"""What the tests on a GPU share, where no GPU is needed to try it."""

from pathlib import Path

import pytest
from record_habits import gross_ns
from side_by_side import own_home

from tare.execute.lock import machine_lock
from tare.home import home, home_folder


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
