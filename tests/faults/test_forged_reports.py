"""Real workers that send a report that cannot be true: each ends in a failure that says what is wrong.

The worker is a program in Python that speaks docs/protocol.md honestly, but for one planted lie.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.execute.launch import ForkLauncher, SpawnLauncher
from tare.protocol.messages import Prepared
from tare.records.record import Round
from tare.rungs.native.rung import NativeRung
from tare.workloads.base import Workload

SIZES = {"width": 16, "depth": 1, "features": 8, "classes": 3}
CASE = Case(workload="mlp", rung="eager", batch=4, sizes=SIZES, threads=1)
# The functions that a lie may replace. It takes 0.3 s, of which 0.1 s are pipelined steps.
WORKER = """
import json, os, sys, time
job = json.load(sys.stdin)

def send(**message):
    os.write(int(os.environ["TARE_FD"]), json.dumps(message).encode() + b"\\n")

def blocks(kind):
    series = {"kind": kind, "steps": [], "wall_ns": [], "at_ns": [], "stop": "budget"}
    for _ in range(10):
        start = time.monotonic_ns()
        time.sleep(0.01)
        series["steps"].append(10)
        series["wall_ns"].append(time.monotonic_ns() - start)
        series["at_ns"].append(start)
    return series

def measured(kind):
    send(kind="measured", series=blocks(kind))

def sample():
    send(kind="stage", name="sample")
    for kind in ("warmup", "pipelined", "latency"):
        measured(kind)

def prepared():
    send(kind="prepared", build_s=0.0, prepare_s=0.0, cache="none")

def finish():
    host = {"peak": 1, "prepare_peak": 1, "start": 1, "method": "none"}
    send(kind="weighed", host=host)
    if job["profile"]:
        send(kind="step-profile", net={"reason": "not profiled"})
    if job["reference"]:
        send(kind="checked", parity={"status": "same", "error": 0.0, "tolerance": 1.0, "compared": 1})
    send(kind="done")
"""
RUN = """
prepared()
sample()
finish()
"""
OTHER_SERIES = """
honest = blocks
def blocks(kind):
    series = honest(kind)
    if kind == "pipelined":
        {lie}
    return series
"""
LIES: dict[str, tuple[str, str]] = {
    "0 ns": (OTHER_SERIES.format(lie='series["wall_ns"] = [0] * 10'), "in 0 ns, less than a nanosecond each"),
    "one lucky block": (OTHER_SERIES.format(lie='series["wall_ns"][3] = 0'), "block 3 made 10 steps in 0 ns"),
    "a thousand times as many steps as time allows": (
        OTHER_SERIES.format(lie='series["steps"] = [10**9] * 10'), "less than a nanosecond each"
    ),
    "an hour of sampling in a second": (
        OTHER_SERIES.format(lie='series["at_ns"] = [series["at_ns"][0] + i * 10**12 for i in range(10)]'),
        "and only",
    ),
    "blocks without sampling": (
        OTHER_SERIES.format(lie='series["wall_ns"] = [10**9] * 10; '
                            'series["at_ns"] = [series["at_ns"][0] + i * 10**9 for i in range(10)]'),
        "the pipelined series lasted 10 s, and only",
    ),
    "a millionth of the time": (
        OTHER_SERIES.format(lie='time.sleep(1); series["wall_ns"] = [100] * 10'), "in which it was taken"
    ),
    "the clock of another machine": (
        OTHER_SERIES.format(lie='series["at_ns"] = [at + 10**15 for at in series["at_ns"]]'), "by CLOCK_MONOTONIC"
    ),
    "overlapping blocks": (OTHER_SERIES.format(lie='series["at_ns"][5] -= 5_000_000'), "block 5 began"),
    "a doubled series": ("honest = measured\ndef measured(kind): honest(kind); honest(kind)", "once each"),
    "no series": ("def measured(kind): pass", "the worker sent none"),
    "no preparation": ("def prepared(): pass", "left out `prepared`"),
    "a preparation of an hour": (
        'def prepared(): send(kind="prepared", build_s=3600.0, prepare_s=0.0, cache="none")',
        "the preparation took 3.6e+03 s",
    ),
    "more after the end": (
        'honest_end = finish\ndef finish(): honest_end(); send(kind="stage", name="report")', "after `done`"
    ),
    "done twice": ('honest_end = finish\ndef finish(): honest_end(); send(kind="done")', "`done` 2 times"),
    "half a message after the end": (
        "honest_end = finish\ndef finish(): honest_end(); os.write(int(os.environ['TARE_FD']), b'{\"kind')",
        "a line without an end",
    ),
    "text that is no UTF-8": (
        "honest_end = finish\ndef finish(): os.write(int(os.environ['TARE_FD']), "
        "b'{\"kind\":\"stage\",\"name\":\"\\xff\"}\\n'); honest_end()",
        "it sent what is not a message",
    ),
    "a list nested a hundred thousand times": (
        "honest_end = finish\ndef finish(): os.write(int(os.environ['TARE_FD']), "
        "b'{\"kind\":\"done\",\"x\":' + b'[' * 100000 + b']' * 100000 + b'}\\n'); honest_end()",
        "it sent what is not a message",
    ),
}  # fmt: skip
QUICK = ("0 ns", "blocks without sampling", "a list nested a hundred thousand times")


def measure(tmp_path: Path, lie: str, check: bool = False) -> Round:
    program = tmp_path / "worker.py"
    program.write_text(WORKER + lie + RUN)
    executor = LocalExecutor(SpawnLauncher((sys.executable, "-S", str(program))), tmp_path / "scratch")
    job = executor._round_job(CASE, 0, Options(budget=0.5), "/a/reference" if check else None)
    return executor._measure(job, 0, Options(budget=0.5))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("check", [False, True])
def test_an_honest_worker_is_believed(tmp_path: Path, check: bool) -> None:
    round_ = measure(tmp_path, "", check)
    assert round_.failure is None
    assert (round_.parity is not None) == check


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full]) for name in LIES]
)
def test_a_lie_is_a_failure_that_says_what_is_wrong(tmp_path: Path, name: str) -> None:
    lie, said = LIES[name]
    round_ = measure(tmp_path, lie)
    assert round_.failure is not None
    assert round_.failure.cause in ("inconsistent", "exception")
    assert said in round_.failure.message


def test_a_worker_that_leaves_out_its_parity_has_failed(tmp_path: Path) -> None:
    """It is no unchecked success: the job asked for it."""
    silent = "job['reference'] = None"
    round_ = measure(tmp_path, silent, check=True)
    assert round_.failure is not None
    assert round_.failure.cause == "inconsistent"
    assert round_.failure.message == "the worker left out `checked`, although the job asks for parity"
    assert measure(tmp_path, silent, check=False).failure is None


@pytest.mark.parametrize(
    ("flood", "said"),
    [
        ("while True: send(kind='stage', name='sample')", "the worker sent more than"),
        ("while True: os.write(int(os.environ['TARE_FD']), b'x' * 65536)", "the worker sent more than"),
    ],
    ids=["messages without end", "a message without end"],
)
def test_a_flood_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flood: str, said: str) -> None:
    for limit in ("MOST_BYTES", "LONGEST_LINE"):
        monkeypatch.setattr(f"tare.execute.supervise.{limit}", 2**20)
    round_ = measure(tmp_path, flood)
    assert round_.failure is not None
    assert (round_.failure.cause, said in round_.failure.message) == ("exception", True)


class Program(NativeRung):
    """An executable that is honest about its times, and leaves the evidence that `leave` writes."""

    name = "program"

    def __init__(self, path: Path, leave: str) -> None:
        self._path = path
        evidence = "names = os.path.join(job['evidence'] or '.', 'names.json')\n"
        path.write_text(WORKER + RUN.replace("finish()", evidence + leave + "finish()"))

    def command(self, case: Case, on_build: Callable[[], None]) -> tuple[str, ...]:  # noqa: ARG002
        return sys.executable, "-S", str(self._path)

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        """Nothing is staged."""


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        ("", "the worker left no evidence, although the job asks for parity"),
        pytest.param(
            "open(names, 'w').write('[1')\n", "the worker's evidence cannot be compared: ", marks=pytest.mark.full
        ),
    ],
    ids=["no evidence", "half of it"],
)
def test_an_executable_that_leaves_out_its_evidence_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: str, said: str
) -> None:
    monkeypatch.setattr("tare.execute.executor.get_rung", lambda _: Program(tmp_path / "program.py", leave))
    with contextlib.closing(LocalExecutor(ForkLauncher(), tmp_path / "scratch")) as executor:
        options = Options(budget=0.5)
        executor._made[executor._stage_job(CASE)] = Prepared(build_s=0, prepare_s=0, cache="none")
        reference = executor.reference_job(CASE, options)
        executor._made[reference] = Prepared(build_s=0, prepare_s=0, cache="none")
        # What an earlier round of the case left does not count for this one.
        stale = executor.folder("evidence", CASE)
        stale.mkdir(parents=True)
        (stale / "names.json").write_text("[]")
        round_ = executor.run_round(CASE, 0, options, check=True)
    assert round_.failure is not None
    assert (round_.failure.cause, round_.parity) == ("inconsistent", None)
    assert round_.failure.message.startswith(said)
