"""A rung outside torch is one file: it is run, checked, shown and compared like any other."""

import json
from pathlib import Path

import pytest
from commandline import Done, planted_tare

# Many small products, each too small for BLAS to start threads.
RUN = ("run", "mlp", "--device", "cpu", "--batch", "8", "--size", "depth=16", "--quick")


def foreign(home: Path, *args: str) -> Done:
    return planted_tare(home, *args, TARE_PLUGINS="foreign_rung")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    done = foreign(home, *RUN, "--rung", "eager,numpy")
    assert done.returncode == 0, done.stderr
    return home


def test_it_is_measured_checked_and_shown(home: Path) -> None:
    done = foreign(home, "show", "mlp", "--json")
    assert done.returncode == 0, done.stderr
    (ladder,) = json.loads(done.stdout)["ladders"]
    rows = {row["rung"]: row for row in ladder["rows"]}
    assert (rows["numpy"]["parity"], rows["numpy"]["failure"]) == ("same", None)
    assert rows["numpy"]["speedup_over_eager"] > 0
    assert rows["numpy"]["net_s"] is None
    assert rows["eager"]["net_s"] > 0
    assert "numpy: no net: no profiler sees into this rung" in ladder["notes"]


def test_it_is_compared(home: Path) -> None:
    assert foreign(home, *RUN, "--rung", "numpy").returncode == 0
    done = foreign(home, "compare", "newest~1", "newest", "--json")
    assert done.returncode in (0, 1), done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert any("/numpy/" in case["case"] for case in cases)


def test_a_step_that_does_not_wait_is_caught(home: Path) -> None:
    done = foreign(home, *RUN, "--rung", "numpy:nowait")
    assert done.returncode != 0
    assert "unsynchronised in audit" in done.stdout
