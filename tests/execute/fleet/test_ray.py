"""A real cluster of Ray, all of whose nodes are on this machine: nodes and drivers are really killed."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from commandline import wait_until

pytest.importorskip("ray")

from fleets import SimulatedFleet

pytestmark = [pytest.mark.full, pytest.mark.alone]

NODES = ["node-1", "node-2", "node-3", "node-4"]
PLAN = """
[options]
rounds = {rounds}
budget = 0.08
parity = false
[[grid]]
workload = "planted_tiny"
rung = ["planted_nap", "planted_doze"]
batch = {batches}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedFleet]:
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    simulated = SimulatedFleet(tmp_path_factory.mktemp("nodes"), NODES, port)
    yield simulated
    simulated.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    folder.mkdir()
    return folder


def write_plan(folder: Path, ladders: int, rounds: int = 2) -> str:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(rounds=rounds, batches=list(range(1, ladders + 1))))
    return str(path)


def start(fleet: SimulatedFleet, home: Path, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tare", *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=fleet.driver_environment(home), stdout=pipe, stderr=pipe, text=True)


def tare(fleet: SimulatedFleet, home: Path, *args: str) -> tuple[int, Any, str]:
    """The exit code, the JSON document if there is one, and what was said."""
    process = start(fleet, home, *args)
    out, said = process.communicate(timeout=300)
    return process.returncode, json.loads(out) if out.startswith("{") else None, said


def run(fleet: SimulatedFleet, home: Path, *args: str, on: str = "ray") -> tuple[int, Any, str]:
    return tare(fleet, home, "run", *args, "--on", on, "--no-calibrate", "--json")


def stored_records(home: Path) -> list[dict[str, Any]]:
    from tare.store import schema
    from tare.store.database import Store

    if not (home / "records.db").exists():
        return []
    with Store(str(home / "records.db"), reading=True) as store:
        records = store.find(schema.records.c.id.is_not(None))
    return [{"key": r.case.key, "id": r.id, "ladder": r.case.ladder, "rounds": r.rounds} for r in records]


def node_programs(fleet: SimulatedFleet, name: str | None = None) -> list[psutil.Process]:
    """The processes that measure on a node, or on any; not those of Ray."""
    homes = {fleet.home(each) for each in ([name] if name else NODES)}
    programs = []
    for process in psutil.process_iter():
        # It may end meanwhile.
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TARE_HOME") in homes and " -m tare." in " ".join(process.cmdline()):
                programs.append(process)
    return programs


def assert_complete(home: Path, ladders: int, rounds: int = 2) -> None:
    """Every case once, whole, each ladder from one node."""
    records = stored_records(home)
    keys = Counter(record["key"] for record in records)
    assert set(keys.values()) == {1}
    rungs = ("planted_nap", "planted_doze")
    batches = range(1, ladders + 1)
    wanted = {
        f"planted_tiny/{rung}/infer/cpu/fp32/batch={batch},width=32/feed=device,layout=contiguous"
        for rung in rungs
        for batch in batches
    }
    assert {key.replace("/device", "") for key in keys} == wanted
    nodes: dict[str, set[str]] = {}
    for record in records:
        assert [done.index for done in record["rounds"]] == list(range(rounds))
        nodes.setdefault(record["ladder"], set()).update(done.node for done in record["rounds"])
    assert all(len(each) == 1 for each in nodes.values())


def test_a_case_that_no_node_can_run_is_skipped_and_nothing_waits(fleet: SimulatedFleet, home: Path) -> None:
    case = ("planted_tiny", "--rung", "planted_nap", "--rounds", "1", "--budget", "0.05", "--no-parity")
    code, document, _ = run(fleet, home, *case, "--device", "cpu,cuda")
    assert code == 0
    (skip,) = document["skipped"]
    assert skip["reason"] == "on no node: torch sees no cuda device here"
    (record,) = document["records"]
    assert record["environment"]["circumstances"]["node"] in NODES
    code, document, said = run(fleet, home, *case, "--device", "cuda")
    assert (code, document) == (2, None)
    assert said.splitlines()[-1].startswith("tare: nothing to do: this is impossible here (on no node: torch sees")


def test_a_failed_case_brings_its_log(fleet: SimulatedFleet, home: Path) -> None:
    code, document, _ = run(fleet, home, "planted_raise", "--rung", "eager", "--rounds", "1", "--no-parity")
    assert code == 1
    failure = document["records"][0]["failure"]
    assert failure["message"].startswith("ValueError: a planted mistake")
    assert "in _raise" in failure["detail"]


def test_an_interruption_ends_what_the_nodes_measure(fleet: SimulatedFleet, home: Path) -> None:
    driver = start(fleet, home, "run", write_plan(home, 8), "--on", "ray", "--no-calibrate", "--json")
    wait_until(lambda: len(stored_records(home)) >= 2)
    driver.send_signal(signal.SIGINT)
    out, _ = driver.communicate(timeout=120)
    assert driver.returncode == 130
    assert json.loads(out)["interrupted"]
    wait_until(lambda: not node_programs(fleet))


def test_a_driver_that_was_killed_goes_on(fleet: SimulatedFleet, home: Path) -> None:
    plan = write_plan(home, 10)
    driver = start(fleet, home, "run", plan, "--on", "ray", "--no-calibrate", "--json")
    wait_until(lambda: len(stored_records(home)) >= 4)
    driver.kill()
    driver.wait()
    before = {record["key"]: record["id"] for record in stored_records(home)}
    code, document, said = run(fleet, home, plan, "--resume")
    assert code == 0, said
    assert_complete(home, 10)
    after = {record["key"]: record["id"] for record in stored_records(home)}
    assert before.items() <= after.items()
    assert len(document["records"]) == 20
    wait_until(lambda: not node_programs(fleet))


def test_rays_client_reaches_a_cluster_from_outside(fleet: SimulatedFleet, home: Path) -> None:
    code, document, said = run(fleet, home, write_plan(home, 2), on=f"ray://127.0.0.1:{fleet.client_port}")
    assert code == 0, said
    assert_complete(home, 2)
    assert {node["name"] for node in document["nodes"]} == {"head", *NODES}


def test_a_node_that_is_not_like_its_peers_is_named_and_left_out(fleet: SimulatedFleet, home: Path) -> None:
    """Real calibrations; their records are kept."""
    fleet.add("slow", {"TARE_PLUGINS": "planted_slow_node"})
    try:
        code, document, said = tare(fleet, home, "fleet", "status", "--drift", "2", "--json")
    finally:
        fleet.kill("slow")
    assert code == 1, said
    nodes = {node["name"]: node for node in document["nodes"]}
    assert [name for name, node in nodes.items() if node["left_out"]] == ["head", "slow"]
    assert "it is not like its 4 peers: mlp on cpu takes" in nodes["slow"]["left_out"]
    assert all(nodes[name]["checks"] for name in NODES)
    assert len(stored_records(home)) == 5


def test_sixty_cases_on_four_nodes_of_which_two_are_killed(fleet: SimulatedFleet, home: Path) -> None:
    """The same records as one machine: each case once, whole, whatever happened on the way."""
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    victims = chance.sample(NODES, 2)
    first, second = chance.randint(2, 12), chance.randint(14, 40)
    print(f"seed {seed}: {victims[0]} after {first} records, {victims[1]} after {second}")
    plan = write_plan(home, 30, rounds=1)
    driver = start(fleet, home, "run", plan, "--on", "ray", "--no-calibrate", "--json")
    for name, count in zip(victims, (first, second), strict=True):
        wait_until(lambda count=count: len(stored_records(home)) >= count, 240)  # type: ignore[misc]
        fleet.kill(name)
    out, said = driver.communicate(timeout=400)
    assert out, said
    document = json.loads(out)
    assert [record["failure"] for record in document["records"] if record["failure"]] == []
    assert driver.returncode == 0, said
    assert_complete(home, 30, rounds=1)
    assert len(document["records"]) == document["planned"] == 60
    left_out = {node["name"]: node["left_out"] for node in document["nodes"] if node["left_out"]}
    # Ray may still list a node of another test that is gone.
    assert set(left_out) & {"head", *NODES} == {"head", *victims}
    assert all("the node is gone" in left_out[name] for name in victims)
    for name in victims:
        wait_until(lambda name=name: not node_programs(fleet, name))  # type: ignore[misc]
