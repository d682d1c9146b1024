"""Reports of a round that cannot be true are refused, with what is wrong; true ones are not."""

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tare.cases.case import Case
from tare.protocol.jobs import CommandJob, RoundJob, read_job
from tare.protocol.messages import (
    Checked,
    Done,
    Measured,
    Message,
    Prepared,
    Stage,
    StepProfile,
    Weighed,
    read_message,
)
from tare.protocol.validation import Arrival, Received, _impossible_blocks, find_fault
from tare.records.record import HostMemory, Net, Parity, Series, SeriesKind

MS = 1_000_000
# The worker starts at this moment of the parent's clock, is prepared after 500 ms, and samples for about a second.
BEGAN = 10_000_000 * MS
JOB = RoundJob(case=Case(workload="mlp", rung="eager", batch=4), budget_s=1.0, width=0.01)


def blocks(kind: SeriesKind, at_ms: int, count: int = 20, wall_ms: int = 10, **fields: Any) -> Series:
    at_ns = [BEGAN + (at_ms + number * (wall_ms + 1)) * MS for number in range(count)]
    values = {"steps": [100] * count, "wall_ns": [wall_ms * MS] * count, "at_ns": at_ns, "stop": "budget"}
    return Series(kind=kind, **(values | fields))


WARMUP, PIPELINED = blocks("warmup", 501), blocks("pipelined", 725, count=50)
LATENCY = blocks("latency", 1280, steps=[1] * 20)
HOST = HostMemory(peak=1, prepare_peak=1, start=1, method="VmHWM after reset")
# Each message with the milliseconds after the start at which it was read.
REPORT: list[tuple[Message, int]] = [
    (Stage("start"), 10),
    (Prepared(build_s=0.1, prepare_s=0.3, cache="none"), 490),
    (Stage("sample"), 500),
    (Measured(WARMUP), 724),
    (Measured(PIPELINED), 1278),
    (Measured(LATENCY), 1505),
    (Weighed(host=HOST), 1510),
    (Done(), 1520),
]
# The parent looks twenty times a second.
TICK_MS = 50


def receive(report: list[tuple[Message, int]], tick_ms: int = TICK_MS) -> list[Received]:
    return [
        Received(message, Arrival(BEGAN + (read_ms - tick_ms) * MS, BEGAN + read_ms * MS))
        for message, read_ms in report
    ]


def fault(report: list[tuple[Message, int]], job: RoundJob = JOB) -> str | None:
    return find_fault(job, BEGAN, receive(report))


def with_series(series: Series) -> list[tuple[Message, int]]:
    """The report with another series of the same kind."""
    return [
        (Measured(series) if isinstance(message, Measured) and message.series.kind == series.kind else message, at)
        for message, at in REPORT
    ]


def change(series: Series, **lists: list[int]) -> Series:
    return msgspec.structs.replace(series, **lists)


def without(kind: type[Message]) -> list[tuple[Message, int]]:
    return [each for each in REPORT if not isinstance(each[0], kind)]


def later(values: list[int], number: int, by_ns: int) -> list[int]:
    return [value + by_ns if i == number else value for i, value in enumerate(values)]


def test_a_true_report_is_believed() -> None:
    assert fault(REPORT) is None


def test_a_command_has_no_latency() -> None:
    case = Case(workload="sleep", rung="command", batch=1)
    job = CommandJob(case=case, budget_s=1.0, width=0.01, arguments=("sleep", "1"))
    assert read_job(msgspec.json.encode(job)) == job
    assert fault([each for each in REPORT if each[0] != Measured(LATENCY)], job) is None
    wrong = "the series are not warmup, pipelined, once each: the worker sent warmup, pipelined, latency"
    assert fault(REPORT, job) == wrong


def test_a_parent_that_was_stopped_believes_what_it_reads_at_once() -> None:
    """All messages are read in one moment, long after the parent had last looked."""
    arrival = Arrival(BEGAN, BEGAN + 60_000 * MS)
    assert find_fault(JOB, BEGAN, [Received(message, arrival) for message, _ in REPORT]) is None


def test_a_worker_that_was_stopped_between_blocks_is_believed() -> None:
    """Half a minute between two of fifty blocks: 0.5 of 30 seconds are still two percent."""
    at_ns = [at + (27_000 * MS if number >= 25 else 0) for number, at in enumerate(PIPELINED.at_ns)]
    late = [(message, read_ms + (27_000 if read_ms > 1000 else 0)) for message, read_ms in REPORT]
    late[4] = (Measured(change(PIPELINED, at_ns=at_ns)), late[4][1])
    late[5] = (Measured(change(LATENCY, at_ns=[at + 27_000 * MS for at in LATENCY.at_ns])), late[5][1])
    assert fault(late) is None


BLOCKS = len(PIPELINED.wall_ns)
FORGED_SERIES: dict[str, tuple[Series, str]] = {
    "a block of no time": (
        change(PIPELINED, wall_ns=later(PIPELINED.wall_ns, 7, -10 * MS)), "block 7 made 100 steps in 0 ns"
    ),
    "no time at all": (change(PIPELINED, wall_ns=[0] * BLOCKS), "block 0 made 100 steps in 0 ns"),
    "steps faster than light": (
        change(PIPELINED, steps=[10**12] * BLOCKS), "10000000 ns, less than a nanosecond each"
    ),
    "no step": (change(PIPELINED, steps=[0] * BLOCKS), "made 0 steps"),
    "no block": (change(PIPELINED, steps=[], wall_ns=[], at_ns=[]), "has no block"),
    "overlapping blocks": (
        change(PIPELINED, at_ns=later(PIPELINED.at_ns, 9, -3 * MS)), "block 9 began 2000000 ns before the previous"
    ),
    "blocks that go backwards": (change(PIPELINED, at_ns=PIPELINED.at_ns[::-1]), "before the previous"),
    "all blocks at once": (change(PIPELINED, at_ns=[PIPELINED.at_ns[0]] * BLOCKS), "before the previous"),
    "more time than passed": (
        blocks("pipelined", 725, count=200), "the pipelined series lasted 2.2 s, and only 0.604 s had passed"
    ),
    "vanishing blocks": (
        change(PIPELINED, wall_ns=[100] * BLOCKS), "has timed 5e-06 s of the 0.504 s in which it was taken"
    ),
    "a device that is busy for longer than the block": (
        change(PIPELINED, device_ns=[20 * MS] * BLOCKS), "busy for 20000000 ns in block 0 of 10000000 ns"
    ),
    "a series before the one before it": (blocks("pipelined", 601, count=50), "began before the series before it"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED_SERIES)
def test_a_series_that_cannot_be_true_is_refused(name: str) -> None:
    series, said = FORGED_SERIES[name]
    found = fault(with_series(series))
    assert found is not None
    assert said in found


def test_a_series_that_is_a_vanishing_share_of_its_budget_is_refused() -> None:
    """All messages are read in one moment, so that nothing is known of the time in between."""
    arrival = Arrival(BEGAN, BEGAN + 1600 * MS)
    report = with_series(blocks("pipelined", 725, count=1, steps=[1], wall_ns=[400]))
    found = find_fault(JOB, BEGAN, [Received(message, arrival) for message, _ in report])
    assert found == "the pipelined series lasted 4e-07 s of a budget of 1 s"


@pytest.mark.skipif(sys.platform != "linux", reason="the clocks of programs may differ elsewhere")
@pytest.mark.parametrize("by_ms", [-3_600_000, -600, 3_600_000])
def test_a_series_of_another_time_is_refused(by_ms: int) -> None:
    """One taken before the worker existed, or in the future, such as one of an earlier round."""
    shifted = [
        (Measured(change(m.series, at_ns=[at + by_ms * MS for at in m.series.at_ns])), at_ms)
        if isinstance(m, Measured)
        else (m, at_ms)
        for m, at_ms in REPORT
    ]
    assert "lies outside the time in which the worker ran" in str(fault(shifted))


@pytest.mark.parametrize("speed", [0.02, 0.08])
def test_a_slow_clock_is_seen(speed: float) -> None:
    """One that is right when the sampling begins, and one that is right when the worker starts."""
    for right_ms in (500, 0):
        late = [(message, right_ms + int(max(read_ms - right_ms, 0) / speed)) for message, read_ms in REPORT]
        assert str(fault(late)).endswith(("by a slow clock", "in which it was taken"))


def test_a_clock_at_half_speed_is_believed() -> None:
    """The parent cannot tell it from a large model, whose weights take as long to restore between two series as
    the series itself: it refuses only what leaves open nine tenths of the time, and two seconds."""
    assert fault([(message, 500 + 2 * max(read_ms - 500, 0)) for message, read_ms in REPORT]) is None


def test_a_clock_that_is_a_little_slow_is_believed_for_a_second() -> None:
    """A delay between two messages looks the same."""
    late = [(message, read_ms + (200 if read_ms > 1000 else 0)) for message, read_ms in REPORT]
    assert fault(late) is None


@pytest.mark.full
def test_no_published_series_is_refused() -> None:
    """Thousands of them, of many machines, most of them of GPUs."""
    checked = 0
    for path in (Path(__file__).parents[2] / "results").rglob("*.json.gz"):
        for series in find_series(json.loads(gzip.decompress(path.read_bytes()))):
            assert list(_impossible_blocks(series)) == [], path
            checked += 1
    assert checked > 1000


def find_series(document: Any) -> Iterator[Series]:
    if isinstance(document, dict) and {"wall_ns", "at_ns"} <= set(document):
        yield msgspec.convert(document, Series)
    elif isinstance(document, dict | list):
        for part in document.values() if isinstance(document, dict) else document:
            yield from find_series(part)


CHECK = msgspec.structs.replace(JOB, reference="/a/folder")
PROFILE = msgspec.structs.replace(JOB, profile=True)
CHECKED: tuple[Message, int] = (Checked(Parity(status="same")), 1515)
PROFILED: tuple[Message, int] = (StepProfile(net=Net(reason="none")), 1515)
FORGED_MESSAGES: dict[str, tuple[list[tuple[Message, int]], RoundJob, str]] = {
    "no parity": (REPORT, CHECK, "left out `checked`, although the job asks for parity"),
    "two answers": ([*REPORT[:-1], CHECKED, CHECKED, REPORT[-1]], CHECK, "sent `checked` 2 times"),
    "no profile": (REPORT, PROFILE, "left out `step-profile`"),
    "two profiles": ([*REPORT[:-1], PROFILED, PROFILED, REPORT[-1]], PROFILE, "sent `step-profile` 2 times"),
    "not prepared": (without(Prepared), JOB, "left out `prepared`"),
    "prepared twice": ([REPORT[1], *REPORT], JOB, "sent `prepared` 2 times"),
    "no memory": (without(Weighed), JOB, "left out `weighed`"),
    "no series": (without(Measured), JOB, "the worker sent none"),
    "no pipelined series": ([REPORT[0], *REPORT[1:4], *REPORT[5:]], JOB, "the worker sent warmup, latency"),
    "a doubled series": ([*REPORT[:5], REPORT[4], *REPORT[5:]], JOB, "warmup, pipelined, pipelined, latency"),
    "done twice": ([*REPORT, REPORT[-1]], JOB, "sent `done` 2 times"),
    "more after the end": ([*REPORT, (Stage("report"), 1530)], JOB, "after `done`"),
    "no sampling": ([each for each in REPORT if each[0] != Stage("sample")], JOB, "never entered the stage"),
    "a negative preparation": (
        [(Prepared(build_s=-1.0, prepare_s=0.3, cache="none"), 490), *without(Prepared)], JOB, "negative"
    ),
    "a preparation before the start": (
        [(Prepared(build_s=9.0, prepare_s=0.3, cache="none"), 490), *without(Prepared)],
        JOB, "the preparation took 9.3 s, and only 0.49 s had passed",
    ),
    "a CPU that goes backwards": (
        [*without(Weighed)[:-1], (Weighed(host=HOST, cpu_pace=-1.0), 1510), REPORT[-1]], JOB, "pace of the CPU"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED_MESSAGES)
def test_messages_that_are_missing_or_doubled_are_refused(name: str) -> None:
    report, job, said = FORGED_MESSAGES[name]
    found = fault(report, job)
    assert found is not None
    assert said in found


def test_parity_and_profile_that_were_asked_for_are_believed() -> None:
    assert fault([*REPORT[:-1], CHECKED, REPORT[-1]], CHECK) is None
    assert fault([*REPORT[:-1], PROFILED, REPORT[-1]], PROFILE) is None


def nested() -> bytes:
    return b'{"kind":"done","later":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "make",
    [
        nested,
        lambda: b'{"kind":"failed","failure":{"cause":"nan","message":"caf\xe9"}}',
        lambda: b'{"kind":"failed","failure":{"cause":"nan","message":"\\ud800"}}',
        lambda: b'{"kind":"prepared","build_s":1e999,"prepare_s":0,"cache":"none"}',
        lambda: b'{"kind":"prepared","build_s":NaN,"prepare_s":0,"cache":"none"}',
        lambda: b'{"kind":"done"}{"kind":"done"}',
        lambda: b"",
    ],
    ids=["nested", "latin-1", "half a character", "infinite", "not a number", "two on a line", "empty"],
)
def test_whatever_is_no_message_is_a_decoding_error(make: Callable[[], bytes]) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_message(make())
