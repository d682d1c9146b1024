"""Traces as other tools, versions and habits write them: the same answers, or a word on what is odd."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces import TraceBuilder

from tare.errors import BadInput
from tare.trace.explanation import About, Explanation, explain
from tare.trace.kernel_table import kernel_table
from tare.trace.memory import memory_use
from tare.trace.metadata import recorded_gross
from tare.trace.operator_table import operator_table
from tare.trace.read import read

# Microseconds from 1970 to the autumn of 2026, as torch before 2.4 counts.
EPOCH = 1_794_818_000_123_457


def program() -> TraceBuilder:
    """Two steps of 100 µs; in each two kernels without a gap between them, and one 20 µs later."""
    builder = TraceBuilder()
    for at in (0, 100):
        builder.step(at, at + 100)
        builder.op("aten::mul", at + 5, at + 31)
        builder.launch(at + 10, at + 13, at + 20, at + 27)
        builder.launch(at + 14, at + 17, at + 27, at + 38)
        builder.op("aten::add", at + 40, at + 60)
        builder.launch(at + 45, at + 50, at + 58, at + 71)
    return builder


def explained(builder: TraceBuilder) -> Explanation:
    found = explain(builder.build(), About(title="odd"))
    assert found.breakdown is not None
    assert found.idle is not None
    assert found.breakdown.idle == found.idle.idle == sum(cause.idle for cause in found.idle.causes)
    assert sum(segment.ns for segment in found.waterfall.segments) == found.waterfall.gross
    return found


def figures(one: Explanation) -> tuple[Any, ...]:
    assert one.idle is not None
    return one.breakdown, one.waterfall.segments, [(cause.cause, cause.idle) for cause in one.idle.causes]


def changed(change: Callable[[dict[str, Any]], dict[str, Any]]) -> TraceBuilder:
    builder = program()
    builder.events = [change(event) for event in builder.events]
    return builder


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event | {"ts": event["ts"] + EPOCH},
        lambda event: event | {"ts": event["ts"] - 10**12},
        lambda event: event | {"ts": str(event["ts"])},
        lambda event: event | {"ts": str(event["ts"]), "dur": str(event["dur"])},
        lambda event: event | {"args": event["args"] or None},
        lambda event: event | {"args": {k: str(v) if k == "correlation" else v for k, v in event["args"].items()}},
    ],
    ids=["since 1970", "before zero", "ts as text", "dur as text", "no arguments", "correlation as text"],
)
def test_how_a_tool_writes_its_numbers_changes_nothing(change: Callable[[Any], Any]) -> None:
    assert figures(explained(changed(change))) == figures(explained(program()))


def test_times_since_1970_are_exact_to_the_nanosecond() -> None:
    found = explained(changed(lambda event: event | {"ts": event["ts"] + EPOCH})).breakdown
    assert found is not None
    assert (found.window, found.active, found.idle) == (200_000, 62_000, 138_000)


def test_a_duration_that_is_no_number_is_left_out_and_said(tmp_path: Path) -> None:
    builder = program()
    builder.op("aten::relu", 80, 90)
    builder.events[-1]["dur"] = "long"
    found = explain(read(builder.write(tmp_path / "t.json")), About(title="odd"))
    assert "1 events have no usable time and were skipped" in found.notes


@pytest.mark.parametrize("odd", [{}, {"args": {"device": [1]}}], ids=["plain", "beside an odd event"])
def test_spans_of_two_events_are_not_read_and_said_to_be(odd: dict[str, Any]) -> None:
    builder = program()
    assert not any("ph B" in note for note in explained(builder).notes)
    builder.events += [{"ph": phase, "cat": "cpu_op", "name": "aten::exp", "ts": 90, "pid": 1} for phase in "BE"]
    builder.events.append({"ph": "X", "cat": "other", "name": "x", "ts": 0, "dur": 1} | odd)
    found = explained(builder)
    assert "1 spans consist of two events (ph B and E), which are not read" in found.notes
    assert figures(found) == figures(explained(program()))


def test_a_trace_of_the_device_alone_has_no_cause_that_is_known() -> None:
    builder = program()
    builder.events = [event for event in builder.events if event["cat"] == "kernel"]
    found = explained(builder)
    assert found.breakdown is not None
    # From the first kernel to the last, without a step.
    assert (found.breakdown.window, found.breakdown.active) == (151_000, 62_000)
    assert any("why the device is idle is not known" in note for note in found.notes)
    assert not any("not known" in note for note in explained(program()).notes if "gross" not in note)


def test_steps_without_any_other_event_of_the_host() -> None:
    builder = program()
    builder.events = [event for event in builder.events if event["cat"] in ("kernel", "user_annotation")]
    assert len(explained(builder).host.operators) == 1


def test_two_ranks_in_one_file_do_not_make_twice_as_many_steps() -> None:
    one, both = program(), program()
    for event in program().events:
        host = event["cat"] in ("cpu_op", "cuda_runtime", "user_annotation")
        arguments = event["args"] if host else event["args"] | {"device": 1}
        number = arguments | (
            {"correlation": arguments["correlation"] + 1000} if "correlation" in arguments else {}
        )
        both.events.append(event | {"pid": 9 if host else 1, "ts": event["ts"] + 1, "args": number})
    found = explained(both)
    assert found.breakdown is not None
    alone = explained(one)
    assert alone.breakdown is not None
    assert found.breakdown.steps == alone.breakdown.steps
    assert found.waterfall.gross == alone.waterfall.gross
    assert any("steps are marked on 2 threads" in note for note in found.notes)
    assert not any("threads" in note for note in alone.notes)


def test_launches_belong_to_the_step_in_which_the_host_made_them() -> None:
    """The host is two steps ahead of a device that takes 100 µs a step."""
    builder = TraceBuilder()
    for i in range(3):
        builder.step(10 * i, 10 * i + 10)
        builder.launch(10 * i + 2, 10 * i + 4, 5 + 100 * i, 105 + 100 * i)
    found = explained(builder).breakdown
    assert found is not None
    assert [(step.kernels, step.launches) for step in found.steps] == [(1, 1)] * 3


def test_launches_on_another_device_are_not_this_one_s() -> None:
    builder = program()
    for at in (0, 100):
        builder.launch(at + 51, at + 53, at + 60, at + 62, device=1)
    found = explained(builder).breakdown
    assert found is not None
    assert [(step.kernels, step.launches) for step in found.steps] == [(3, 3)] * 2
    assert (found.device, found.other_devices, found.lost_launches) == (0, [1], 0)


def test_times_beyond_all_bounds_are_named_as_the_reason() -> None:
    """Nanoseconds since 1970 where the format has microseconds."""
    builder = changed(lambda event: event | {"ts": (event["ts"] + EPOCH) * 1000})
    with pytest.raises(BadInput, match=r"nothing to explain \(20 events have no usable time\)"):
        explain(builder.build(), About(title="odd"))


def test_kernels_of_another_device_are_not_in_the_table_of_this_one() -> None:
    builder = program()
    builder.launch(51, 53, 60, 62, kernel="elsewhere", device=1)
    trace = builder.build()
    assert {kernel.name for kernel in kernel_table(trace, counted=True)} == {"k"}
    assert {kernel.name for kernel in kernel_table(trace)} == {"k", "elsewhere"}


def test_operators_that_outlive_what_is_around_them_leave_no_negative_time() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::outer", 10, 30)
    builder.op("aten::first", 11, 24)
    builder.op("aten::late", 24, 50)
    builder.launch(40, 42, 45, 48)
    own = {one.name: one.host_self for one in operator_table(builder.build())}
    assert (own["aten::outer"], own["aten::first"], own["aten::late"]) == (1000, 13_000, 26_000)


def test_more_blocks_than_the_allocator_has_given_out_are_not_all_there() -> None:
    builder = program()
    for at, size, address, allocated in ((1, 400, 1, 1000), (2, 300, 2, 900), (3, 500, 3, 1100)):
        builder.memory(at, size, address, allocated)
    found = memory_use(builder.build())
    assert found is not None
    assert (found.peak_bytes, sum(found.by_kind.values())) == (1100, 1100)
    assert found.by_kind["resident"] == 1100 - 500 - 300


@pytest.mark.parametrize(("gross_ns", "known"), [(5000, 5000), (0.3, None), (-4, None), (1e30, None), ("5", None)])
def test_a_gross_that_no_step_can_have_is_unknown(gross_ns: Any, known: int | None) -> None:
    builder = program()
    builder.metadata["tare_recorded"] = {"gross_ns": gross_ns}
    assert recorded_gross(builder.build()) == known


def test_no_character_of_a_name_steers_a_terminal() -> None:
    builder = program()
    builder.op("up\x1b[2Jdown\nright\u202eleft", 80, 90)
    builder.metadata["deviceProperties"] = [{"id": 0, "name": "G\x1bPU"}]
    trace = builder.build()
    assert "up\ufffd[2Jdown\ufffdright\ufffdleft" in trace.names
    assert explain(trace, About(title="odd")).device == "G\ufffdPU"


def test_memory_whose_release_was_not_recorded_is_not_counted_twice() -> None:
    builder = program()
    for at, size, address, allocated in ((1, 100, 7, 1100), (2, 300, 7, 1300), (3, -300, 7, 1000)):
        builder.memory(at, size, address, allocated)
    found = memory_use(builder.build())
    assert found is not None
    assert found.peak_bytes == 1300
    assert min(found.by_kind.values()) >= 0
    assert (found.by_kind["resident"], sum(found.by_kind.values())) == (1000, 1300)
    assert found.unreleased == []
