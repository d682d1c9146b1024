"""`--batch auto` against memory that really ends, on the host and (as torch says it) on a device."""

import json
import sqlite3
from pathlib import Path

import pytest
from commandline import Tare, start_tare, wait_until

pytestmark = pytest.mark.full

QUICK = ("--rung", "eager", "--device", "cpu", "--batch", "auto", "--quick", "--threads", "1", "--json")


@pytest.mark.parametrize(
    ("workload", "cause", "extra"),
    [
        ("planted_batch_device", "device-oom", ()),
        ("planted_batch_host", "host-oom", ("--memory", "800", "--budget", "0.1")),
    ],
)
def test_memory_that_ends_is_normal(tare: Tare, workload: str, cause: str, extra: tuple[str, ...]) -> None:
    done = tare("run", workload, *QUICK, *extra)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (record,) = document["records"]
    search = record["search"]
    assert search["stop"] == "memory"
    assert search["points"][-1]["round"]["failure"]["cause"] == cause
    assert all(point["round"]["failure"] is None for point in search["points"][:-1])
    batches = [point["batch"] for point in search["points"]]
    assert batches == [2**k for k in range(len(batches))]
    assert len(batches) >= 2
    assert record["case"]["batch"] == search["chosen"] < batches[-1]
    assert record["failure"] is None
    assert any("memory ended" in note for ladder in document["ladders"] for note in ladder["notes"])


def test_what_never_works_is_a_failed_case(tare: Tare) -> None:
    done = tare("run", "planted_raise", *QUICK)
    (record,) = json.loads(done.stdout)["records"]
    assert done.returncode == 1
    assert (record["failure"]["cause"], record["case"]["batch"]) == ("exception", 1)
    assert record["search"]["stop"] == "failure"


def kept(home: Path, points: bool) -> dict[str, str]:
    """The rounds that are stored before their record: the points of a search, or the others."""
    if not (home / "records.db").exists():
        return {}
    with sqlite3.connect(home / "records.db") as database:
        try:
            where = "position < 0" if points else "position >= 0"
            return dict(database.execute(f"select key, document from rounds where {where}").fetchall())
        except sqlite3.OperationalError:
            return {}


@pytest.mark.parametrize(("within", "rows"), [(True, 2), (False, 1)], ids=["within", "behind"])
def test_an_interrupted_search_is_not_made_again(home: Path, tare: Tare, within: bool, rows: int) -> None:
    """Killed within it or behind it, before any record holds it: another search might choose another batch, and
    leave the rounds that are stored to nobody."""
    args = ("run", "planted_batch_device", *QUICK, "--rounds", "3")
    running = start_tare(home, *args)
    wait_until(lambda: len(kept(home, points=within)) >= rows)
    running.kill()
    running.communicate()
    points = {key: json.loads(text) for key, text in kept(home, points=True).items()}
    rounds = [json.loads(text) for text in kept(home, points=False).values()]
    assert len(points) >= 2
    done = tare(*args, "--resume")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    found = [point["round"] for point in record["search"]["points"]]
    assert all(point in found for point in points.values())
    assert all(one in record["rounds"] for one in rounds)
    assert kept(home, points=True) == kept(home, points=False) == {}
