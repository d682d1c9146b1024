"""The program of a node, a process of its own, behind the relay that Ray runs."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from builders import make_case
from commandline import planted_environment, wait_until

import tare
from tare.cases.options import Options
from tare.execute.fleet.messages import (
    Consider,
    Considered,
    LadderDone,
    MeasureLadder,
    NodeLost,
    NodeMessage,
    RecordDone,
    RoundDone,
    Survey,
    Surveyed,
    encode_line,
    read_node_message,
)
from tare.execute.fleet.relay import NodeRelay

# Prints its lines backwards, and says on its log what it is.
ECHO = """
import sys
print("a log", file=sys.stderr, flush=True)
for line in sys.stdin:
    print(line.strip()[::-1], flush=True)
sys.exit(3)
"""


def hear(relay: NodeRelay, is_last: Callable[[NodeMessage], bool]) -> list[NodeMessage]:
    heard: list[NodeMessage] = []
    while not (heard and is_last(heard[-1])):
        lines, ended = relay.receive(5.0)
        assert ended is None, ended
        heard += [read_node_message(line) for line in lines]
    return heard


def test_the_relay_passes_lines_on_and_tells_how_the_program_ended() -> None:
    relay = NodeRelay(["-c", ECHO])
    relay.send("abc")
    assert relay.receive(30.0) == (["cba\n"], None)
    assert relay.receive(0.0) == ([], None)
    relay.stop()
    assert relay.receive(30.0) == ([], "its program ended with code 3: a log\n")
    # A program that has ended hears nothing, which is no error.
    relay.send("abc")


def test_the_program_does_not_see_the_variables_that_ray_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would change what is measured; `/proc` tells what this process began with."""
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    relay = NodeRelay(["-c", "import os; print(os.environ.get('OMP_NUM_THREADS'), 'PATH' in os.environ)"])
    assert relay.receive(30.0)[0] != ["77 True\n"]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeRelay]:
    environment = planted_environment(tmp_path) | {"TARE_PLUGINS": "planted_naps", "TARE_LOCK": ""}
    monkeypatch.setattr(NodeRelay, "_environment", lambda _: environment)
    relay = NodeRelay(["-m", "tare.execute.fleet.node"])
    yield relay
    relay.stop()


def test_a_node_says_what_it_is_and_measures_a_ladder(program: NodeRelay) -> None:
    """Orders in, rounds and a record out; and at the end of its input it leaves nothing behind."""
    case = make_case(workload="planted_tiny", rung="planted_nap", sizes={"width": 2}, batch=2)
    on_gpu = make_case(workload="planted_tiny", rung="planted_nap", sizes={"width": 2}, device="cuda:9")
    program.send('{"kind":"an order of another version"}')
    refusal = hear(program, lambda message: isinstance(message, NodeLost))[-1]
    assert isinstance(refusal, NodeLost)
    assert refusal.reason.startswith(f"its tare {tare.__version__} cannot read an order")
    program.send(
        encode_line(Survey(node="here", tare=tare.__version__, isolation="fork", timeout=60.0, axes={})).decode()
    )
    surveyed = hear(program, lambda message: isinstance(message, Surveyed))[-1]
    assert isinstance(surveyed, Surveyed)
    assert "cpu" in surveyed.probed.devices
    assert {check.name for check in surveyed.checks} >= {"CPU load", "host memory"}
    program.send(encode_line(Consider(cases=[case, on_gpu])).decode())
    considered = hear(program, lambda message: isinstance(message, Considered))[-1]
    assert isinstance(considered, Considered)
    assert list(considered.refusals) == [on_gpu.key]
    options = Options(rounds=2, budget=0.05, parity=False)
    program.send(encode_line(MeasureLadder(number=7, run="run1", cases=[case], options=options)).decode())
    heard = hear(program, lambda message: isinstance(message, LadderDone))
    rounds = [message for message in heard if isinstance(message, RoundDone)]
    (record,) = (message.record for message in heard if isinstance(message, RecordDone))
    assert [(each.number, each.round.index, each.round.node) for each in rounds] == [
        (7, 0, "here"),
        (7, 1, "here"),
    ]
    assert record.ok
    assert (record.run, record.rounds) == ("run1", [each.round for each in rounds])
    assert record.environment.circumstances["node"] == "here"
    children = psutil.Process(program._process.pid).children(recursive=True)
    assert children, "the fork server"
    program.stop()
    wait_until(
        lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    )


def test_a_program_whose_relay_is_killed_ends_with_what_it_measures(tmp_path: Path) -> None:
    """As where Ray's process on a node dies."""
    code = (
        "import os, sys, time\n"
        "from tare.execute.fleet.relay import NodeRelay\n"
        "relay = NodeRelay(['-m', 'tare.execute.fleet.node'])\n"
        "print(relay._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = planted_environment(tmp_path) | {"TARE_LOCK": ""}
    holder = psutil.Popen([sys.executable, "-c", code], env=environment, stdout=-1)
    program = psutil.Process(int(holder.stdout.readline()))
    # It may be anywhere in its start; the end of its input must end it all the same.
    time.sleep(float(os.urandom(1)[0]) / 100)
    holder.kill()
    holder.wait()
    wait_until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def test_a_relay_that_ray_leaves_behind_ends_its_program(tmp_path: Path) -> None:
    """As where Ray ends on a node whose network was cut, and its process stays."""
    relay = (
        "import time\n"
        "from tare.execute.fleet.relay import NodeRelay\n"
        "relay = NodeRelay(['-c', 'import sys; sys.stdin.read()'])\n"
        "print(relay._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {relay!r}])\n"
    ray = psutil.Popen([sys.executable, "-c", parent], env=planted_environment(tmp_path), stdout=-1)
    program = psutil.Process(int(ray.stdout.readline()))
    holder = program.parent()
    ray.kill()
    ray.wait()
    for process in (program, holder):
        wait_until(lambda process=process: not process.is_running() or process.status() == "zombie")  # type: ignore[misc]
