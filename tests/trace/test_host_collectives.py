"""Collectives that the host carries out (gloo) are communication of the device's step, not idle time."""

import json
import subprocess
import sys
from pathlib import Path

import data_parallel
import numpy as np
import pytest
from ranks import gloo_job
from traces import TraceBuilder

from tare.trace.breakdown import breakdown
from tare.trace.collectives import collectives
from tare.trace.host_collectives import ENQUEUED
from tare.trace.idle import explain_idle
from tare.trace.job import explain_job


def test_they_are_exposed_communication() -> None:
    parts = breakdown(gloo_job(ranks=1)[0].build())
    assert parts is not None
    # A step: 200 us of a product, gloo from 234 to 440, a copy of 10 us within 480.
    assert parts.active == 5 * 200_000
    assert parts.communicating == 5 * 206_000
    assert parts.movement == 5 * 10_000
    assert parts.window == parts.active + parts.communicating + parts.movement + parts.idle
    assert (parts.orphans, parts.lost_launches, parts.launched_before) == (0, 0, 0)
    (use,) = parts.collectives
    assert (use.operation, use.count, use.bytes, use.bus_median) == ("all-reduce", 10, None, None)


def test_each_belongs_to_the_operation_that_enqueued_it() -> None:
    trace = gloo_job(ranks=1, steps=3)[0].build()
    table = collectives(trace)
    calls = trace.device.call[table.rows]
    assert len(set(calls.tolist())) == 6
    assert {trace.name(trace.calls, row) for row in calls.tolist()} == {ENQUEUED}
    operators = trace.calls.operator[calls]
    assert {trace.name(trace.operators, row) for row in operators.tolist()} == {"c10d::allreduce_"}
    assert (trace.operators.start[operators] <= trace.device.start[table.rows]).all()
    assert (np.diff(operators) > 0).all()
    idle, parts = explain_idle(trace), breakdown(trace)
    assert idle is not None
    assert parts is not None
    assert idle.idle == parts.idle


def test_one_that_was_enqueued_before_the_recording_has_no_call() -> None:
    builder = gloo_job(ranks=1, steps=2)[0]
    first = next(event for event in builder.events if event["name"] == "c10d::allreduce_")
    builder.events.remove(first)
    trace = builder.build()
    calls = trace.device.call[collectives(trace).rows].tolist()
    assert [call >= 0 for call in calls] == [False, True, True, True]


def test_the_rank_that_everybody_waits_for_is_named() -> None:
    result = explain_job([builder.build() for builder in gloo_job(slow=2, slow_for=300)])
    assert result.straggler is not None
    assert result.straggler.rank == 2
    # Both all-reduces of a step wait for it at once: it is late once.
    assert result.straggler.collectives == 10
    assert result.straggler.late == pytest.approx(5 * 300_000, rel=0.05)
    assert result.straggler.did[0].what == "python: train.py(7): augment"
    assert result.straggler.did[0].ns == pytest.approx(5 * 300_000, rel=0.05)
    waits = [rank.waiting for rank in result.ranks]
    assert waits[2] == 0
    assert min(waits[:2] + waits[3:]) == pytest.approx(5 * 300_000, rel=0.05)
    for rank in result.ranks:
        assert rank.computing + rank.waiting + rank.transfer + rank.moving + rank.idle == rank.window


def test_a_trace_without_device_work_stays_as_it_is() -> None:
    builder = TraceBuilder()
    builder.op("c10d::allreduce_", 0, 5)
    builder.annotation("gloo:all_reduce", 2, 50, thread=900)
    trace = builder.build()
    assert not trace.has_device
    assert len(trace.calls) == 0


@pytest.mark.full
def test_torch_marks_the_collectives_of_gloo_as_expected(tmp_path: Path) -> None:
    """Real processes on the CPU, whose traces have the names and the threads; a kernel stands for the device."""
    arguments = (str(tmp_path), "cpu", "2", "-1", "0")
    subprocess.run([sys.executable, data_parallel.__file__, *arguments], check=True, timeout=300)
    document = json.loads((tmp_path / "rank0.json").read_text())
    events = document["traceEvents"]
    marked = [event for event in events if event.get("name") == "gloo:all_reduce" and event["ph"] == "X"]
    assert len(marked) >= data_parallel.STEPS
    builder = TraceBuilder()
    builder.events = events
    first = min(event["ts"] for event in events if str(event.get("name")).startswith("ProfilerStep"))
    builder.launch(first + 1, first + 2, first + 3, first + 4)
    trace = builder.build()
    table = collectives(trace)
    assert table.operations == ["all-reduce"] * len(marked)
    assert (trace.device.call[table.rows] >= 0).all()
