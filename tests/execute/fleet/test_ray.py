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


def start(fleet: SimulatedFleet, home: Path, *args: str, stderr: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tare", *args]
    environment = fleet.driver_environment(home)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)


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
    return [
        {
            "key": r.case.key,
            "id": r.id,
            "run": r.run,
            "ladder": r.case.ladder,
            "rounds": r.rounds,
            "environment": r.environment.id,
            "status": r.ok,
        }
        for r in records
    ]


def what_was_measured(record: dict[str, Any]) -> tuple[Any, ...]:
    """What must not depend on where it was measured."""
    rounds = tuple((done.index, done.failure) for done in record["rounds"])
    return record["key"], record["environment"], record["status"], rounds


def count_rounds(home: Path) -> int:
    """Those of complete cases and of others."""
    from tare.store import schema
    from tare.store.database import Store

    if not (home / "records.db").exists():
        return 0
    complete = sum(len(record["rounds"]) for record in stored_records(home))
    with Store(str(home / "records.db"), reading=True) as store:
        return complete + len(list(store.rows(schema.rounds.select())))


def first_runs(home: Path) -> set[str]:
    """The runs of a check that are no confirmation."""
    from tare.store import schema
    from tare.store.database import Store

    with Store(str(home / "records.db"), reading=True) as store:
        return {row.id for row in store.rows(schema.runs.select()) if not row.confirmation}


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


def check(home: Path, *args: str) -> tuple[str, ...]:
    """The steps of the baseline's version sleep for half as long."""
    plan = home / "check.toml"
    plan.write_text(PLAN.format(rounds=6, batches=[1]))
    options = ("--metric", "gross", "--confirm", "6", "--on", "ray", "--no-calibrate", "--json")
    return "check", str(plan), "--baseline-env", "PLANTED_NAP_MS=1", *options, *args


def test_both_sides_of_a_check_are_measured_on_one_node(fleet: SimulatedFleet, home: Path) -> None:
    code, report, said = tare(fleet, home, *check(home, "--node", "name=node-2"))
    assert (code, report["nodes"]) == (1, ["node-2"]), said
    assert "measured on node-2" in report["notes"]
    assert [change["stage"] for case in report["cases"] for change in case["changes"]] == ["confirmed"] * 2
    records = stored_records(home)
    assert {done.node for record in records for done in record["rounds"]} == {"node-2"}
    # Two versions, first and to confirm.
    assert list(Counter(record["key"] for record in records).values()) == [4] * 2
    wait_until(lambda: not node_programs(fleet))


def test_a_version_that_no_node_has_is_one_line(fleet: SimulatedFleet, home: Path) -> None:
    code, _, said = tare(fleet, home, *check(home, "--baseline-python", "/no/python"))
    assert code == 2
    line = "tare: cannot measure the baseline's version on node node-1: --baseline-python: there is no interpreter"
    assert said.splitlines()[-1].startswith(line)


def test_a_check_whose_node_dies_goes_on_elsewhere(fleet: SimulatedFleet, home: Path) -> None:
    """Each case is measured on one node, both versions; what was complete is not measured again."""
    fleet.add("a-node")
    seed = int.from_bytes(os.urandom(4))
    rounds = random.Random(seed).randint(1, 40)
    print(f"seed {seed}: a-node is killed after {rounds} rounds")
    driver = start(fleet, home, *check(home))
    try:
        wait_until(lambda: count_rounds(home) >= rounds or driver.poll() is not None, 240)
    finally:
        fleet.kill("a-node")
    out, said = driver.communicate(timeout=400)
    assert out, said
    report = json.loads(out)
    assert (driver.returncode, set(report["nodes"]) - {"a-node"}) == (1, {"node-1"}), said
    assert "node a-node is left out: " in said
    assert [change["stage"] for case in report["cases"] for change in case["changes"]] == ["confirmed"] * 2
    records = stored_records(home)
    assert list(Counter(record["key"] for record in records).values()) == [4] * 2
    firsts = first_runs(home)
    sides: dict[tuple[str, bool], set[str]] = {}
    for record in records:
        assert [done.index for done in record["rounds"]] == list(range(len(record["rounds"])))
        nodes = sides.setdefault((record["key"], record["run"] in firsts), set())
        nodes.update(done.node for done in record["rounds"])
    assert len(sides) == 4
    assert all(len(nodes) == 1 for nodes in sides.values())


def test_a_node_that_is_cut_off_is_replaced_and_what_it_says_late_is_not_heard(
    fleet: SimulatedFleet, home: Path
) -> None:
    """It measures on, and comes back with rounds that another node has measured meanwhile."""
    fleet.add("cut")
    said = home / "said"
    arguments = ("run", write_plan(home, 12), "--on", "ray", "--no-calibrate", "--json")
    with said.open("w") as stderr:
        driver = start(fleet, home, *arguments, stderr=stderr)
    try:
        wait_until(lambda: any(done.node == "cut" for r in stored_records(home) for done in r["rounds"]), 240)
        speaking = fleet.cut_off("cut")
        assert len(speaking) >= 2
        wait_until(lambda: "node cut is left out" in said.read_text(), 60)
        fleet.reconnect("cut", speaking)
    except BaseException:
        driver.kill()
        raise
    out, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0, said.read_text()
    assert_complete(home, 12)
    (reason,) = (node["left_out"] for node in json.loads(out)["nodes"] if node["name"] == "cut")
    assert reason.startswith("the node is gone")
    wait_until(lambda: not node_programs(fleet, "cut"))


def test_sixty_cases_on_four_nodes_of_which_two_are_killed(fleet: SimulatedFleet, home: Path) -> None:
    """The same records as one machine, which measures the same plan beside it, whatever happened on the way."""
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    victims = chance.sample(NODES, 2)
    first, second = chance.randint(2, 12), chance.randint(14, 40)
    print(f"seed {seed}: {victims[0]} after {first} records, {victims[1]} after {second}")
    plan, alone = write_plan(home, 30, rounds=1), home / "alone"
    alone.mkdir()
    # The nodes have this number of threads, which is part of the environment of a record.
    one_machine = subprocess.Popen(
        [sys.executable, "-m", "tare", "run", plan, "--json"], stdout=subprocess.DEVNULL,
        env=fleet.driver_environment(alone) | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
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
    assert one_machine.wait(400) == 0
    assert Counter(map(what_was_measured, stored_records(home))) == Counter(
        map(what_was_measured, stored_records(alone))
    )
    left_out = {node["name"]: node["left_out"] for node in document["nodes"] if node["left_out"]}
    # Ray may still list a node of another test that is gone.
    assert set(left_out) & {"head", *NODES} == {"head", *victims}
    assert all("the node is gone" in left_out[name] for name in victims)
    for name in victims:
        wait_until(lambda name=name: not node_programs(fleet, name))  # type: ignore[misc]
