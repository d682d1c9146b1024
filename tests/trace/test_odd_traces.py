"""Traces of other tools and versions: the same figures, or a note."""

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
    explanation = explain(builder.build(), About(title="odd"))
    assert explanation.breakdown is not None
    assert explanation.idle is not None
    assert (
        explanation.breakdown.idle == explanation.idle.idle == sum(cause.idle for cause in explanation.idle.causes)
    )
    assert sum(segment.ns for segment in explanation.waterfall.segments) == explanation.waterfall.gross
    return explanation


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
def test_the_notation_of_numbers_changes_nothing(change: Callable[[Any], Any]) -> None:
    assert figures(explained(changed(change))) == figures(explained(program()))


def test_times_since_1970_are_exact_to_the_nanosecond() -> None:
    parts = explained(changed(lambda event: event | {"ts": event["ts"] + EPOCH})).breakdown
    assert parts is not None
    assert (parts.window, parts.active, parts.idle) == (200_000, 62_000, 138_000)


def test_an_event_without_a_valid_duration_is_skipped_with_a_note(tmp_path: Path) -> None:
    builder = program()
    builder.op("aten::relu", 80, 90)
    builder.events[-1]["dur"] = "long"
    explanation = explain(read(builder.write(tmp_path / "t.json")), About(title="odd"))
    assert "1 events have no usable time and were skipped" in explanation.notes


@pytest.mark.parametrize("odd", [{}, {"args": {"device": [1]}}], ids=["plain", "beside an odd event"])
def test_begin_and_end_events_are_one_span_and_a_beginning_alone_has_a_note(odd: dict[str, Any]) -> None:
    builder = program()
    assert not any("ph B" in note for note in explained(builder).notes)
    begin = {"ph": "B", "cat": "cpu_op", "name": "aten::exp", "pid": 1}
    builder.events += [begin | {"ts": 89}, begin | {"ts": 90}, {"ph": "E", "pid": 1, "ts": 92}]
    builder.events.append({"ph": "X", "cat": "other", "name": "x", "ts": 0, "dur": 1} | odd)
    explanation = explained(builder)
    assert "1 spans begin (ph B) and never end: they are not read" in explanation.notes
    whole = program()
    whole.op("aten::exp", 90, 92)
    assert figures(explanation) == figures(explained(whole))


def test_a_device_trace_has_no_known_cause_of_idle_time() -> None:
    builder = program()
    builder.events = [event for event in builder.events if event["cat"] == "kernel"]
    explanation = explained(builder)
    assert explanation.breakdown is not None
    # From the first kernel to the last, without a step.
    assert (explanation.breakdown.window, explanation.breakdown.active) == (151_000, 62_000)
    assert any("why the device is idle is not known" in note for note in explanation.notes)
    assert explanation.idle is not None
    assert {cause.cause for cause in explanation.idle.causes if cause.idle} == {"not known"}
    assert not any("not known" in note for note in explained(program()).notes if "gross" not in note)


def test_steps_without_other_host_events() -> None:
    builder = program()
    builder.events = [event for event in builder.events if event["cat"] in ("kernel", "user_annotation")]
    assert len(explained(builder).host.operators) == 1


def test_two_ranks_in_one_file_have_the_steps_of_one() -> None:
    one, both = program(), program()
    for event in program().events:
        host = event["cat"] in ("cpu_op", "cuda_runtime", "user_annotation")
        arguments = event["args"] if host else event["args"] | {"device": 1}
        number = arguments | (
            {"correlation": arguments["correlation"] + 1000} if "correlation" in arguments else {}
        )
        both.events.append(event | {"pid": 9 if host else 1, "ts": event["ts"] + 1, "args": number})
    explanation = explained(both)
    assert explanation.breakdown is not None
    alone = explained(one)
    assert alone.breakdown is not None
    assert explanation.breakdown.steps == alone.breakdown.steps
    assert explanation.waterfall.gross == alone.waterfall.gross
    assert any("steps are marked on 2 threads" in note for note in explanation.notes)
    assert not any("threads" in note for note in alone.notes)


def test_a_launch_belongs_to_the_step_of_the_host() -> None:
    """The host is two steps ahead of a device that takes 100 µs a step."""
    builder = TraceBuilder()
    for i in range(3):
        builder.step(10 * i, 10 * i + 10)
        builder.launch(10 * i + 2, 10 * i + 4, 5 + 100 * i, 105 + 100 * i)
    parts = explained(builder).breakdown
    assert parts is not None
    assert [(step.kernels, step.launches) for step in parts.steps] == [(1, 1)] * 3


def test_launches_on_another_device_do_not_count() -> None:
    builder = program()
    for at in (0, 100):
        builder.launch(at + 51, at + 53, at + 60, at + 62, device=1)
    parts = explained(builder).breakdown
    assert parts is not None
    assert [(step.kernels, step.launches) for step in parts.steps] == [(3, 3)] * 2
    assert (parts.device, parts.other_devices, parts.lost_launches) == (0, [1], 0)


def test_times_out_of_range_are_named_as_the_reason() -> None:
    """Nanoseconds since 1970 where the format has microseconds."""
    builder = changed(lambda event: event | {"ts": (event["ts"] + EPOCH) * 1000})
    with pytest.raises(BadInput, match=r"nothing to explain \(20 events have no usable time\)"):
        explain(builder.build(), About(title="odd"))


def test_the_counted_kernel_table_excludes_other_devices() -> None:
    builder = program()
    builder.launch(51, 53, 60, 62, kernel="elsewhere", device=1)
    trace = builder.build()
    assert {kernel.name for kernel in kernel_table(trace, counted=True)} == {"k"}
    assert {kernel.name for kernel in kernel_table(trace)} == {"k", "elsewhere"}


def test_no_self_time_is_negative_where_a_child_outlives_its_parent() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::outer", 10, 30)
    builder.op("aten::first", 11, 24)
    builder.op("aten::late", 24, 50)
    builder.launch(40, 42, 45, 48)
    own = {one.name: one.host_self for one in operator_table(builder.build())}
    assert (own["aten::outer"], own["aten::first"], own["aten::late"]) == (1000, 13_000, 26_000)


def test_blocks_beyond_the_allocators_total_are_dropped() -> None:
    builder = program()
    for at, size, address, allocated in ((1, 400, 1, 1000), (2, 300, 2, 900), (3, 500, 3, 1100)):
        builder.memory(at, size, address, allocated)
    use = memory_use(builder.build())
    assert use is not None
    assert (use.peak_bytes, sum(use.by_kind.values())) == (1100, 1100)
    assert use.by_kind["resident"] == 1100 - 500 - 300


@pytest.mark.parametrize(("gross_ns", "known"), [(5000, 5000), (0.3, None), (-4, None), (1e30, None), ("5", None)])
def test_an_implausible_gross_is_ignored(gross_ns: Any, known: int | None) -> None:
    builder = program()
    builder.metadata["tare_recorded"] = {"gross_ns": gross_ns}
    assert recorded_gross(builder.build()) == known


def test_control_characters_in_names_are_replaced() -> None:
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
    use = memory_use(builder.build())
    assert use is not None
    assert use.peak_bytes == 1300
    assert min(use.by_kind.values()) >= 0
    assert (use.by_kind["resident"], sum(use.by_kind.values())) == (1000, 1300)
    assert use.unreleased == []


def with_external_ids(key: str) -> TraceBuilder:
    """Each operator and what it launched have an external id; correlation ids are missing."""
    builder = program()
    number = 0
    for event in builder.events:
        if event["cat"] == "cpu_op":
            number += 1
        if event["cat"] in ("cpu_op", "cuda_runtime", "kernel"):
            event["args"] = {k: v for k, v in event["args"].items() if k != "correlation"} | {key: number}
    return builder


@pytest.mark.parametrize("key", ["External id", "external id"])
def test_kernels_are_linked_by_external_ids_where_no_call_was_recorded(key: str) -> None:
    builder = with_external_ids(key)
    builder.events = [event for event in builder.events if event["cat"] != "cuda_runtime"]
    explanation = explained(builder)
    assert explanation.breakdown is not None
    assert explanation.breakdown.orphans == 0
    table = {row.name: row.device_self for row in operator_table(builder.build())}
    assert (table["aten::mul"], table["aten::add"]) == (36_000, 26_000)


def test_a_step_without_a_length_is_none() -> None:
    builder = program()
    for event in builder.events:
        if event["name"].startswith("ProfilerStep"):
            event["dur"] = 0
    explanation = explained(builder)
    assert explanation.breakdown is not None
    assert explanation.breakdown.window > 0
    assert any("no step is marked" in note for note in explanation.notes)


@pytest.mark.parametrize(
    ("runtime", "kernels", "call"),
    [
        ("xpu_runtime", "kernel", "urEnqueueKernelLaunch"),
        ("mtia_runtime", "mtia_ccp_events", "runtimeLaunch"),
        ("hip_runtime", "kernel", "hipExtModuleLaunchKernel"),
        ("privateuse1_runtime", "kernel", "aclrtLaunchKernel"),
    ],
)
def test_other_accelerators_are_devices(runtime: str, kernels: str, call: str) -> None:
    rename = {"cuda_runtime": {"cat": runtime, "name": call}, "kernel": {"cat": kernels}}
    explanation = explained(changed(lambda event: event | rename.get(event["cat"], {})))
    assert figures(explanation)[1:] == figures(explained(program()))[1:]
    assert "no device" not in " ".join(explanation.notes)


def test_kernels_are_linked_by_flow_events_where_there_are_no_ids(tmp_path: Path) -> None:
    """An arrow leads from within each call to the start of its kernel; others lead from forward to backward."""
    builder = program()
    calls: dict[int, dict[str, Any]] = {}
    arrows: list[dict[str, Any]] = []
    for event in builder.events:
        number = event["args"].pop("correlation", None)
        if event["cat"] == "cuda_runtime":
            calls[number] = event
        elif number is not None:
            for phase, end in (("s", calls[number]), ("f", event)):
                arrow = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, "ts": end["ts"]}
                arrows.append(arrow | {"pid": end["pid"], "tid": end["tid"]})
    arrows += [
        {"ph": phase, "cat": "fwdbwd", "name": "x", "id": 1, "pid": 100, "tid": 100, "ts": 5} for phase in "sf"
    ]
    builder.events += arrows
    trace = read(builder.write(tmp_path / "flows.json"))
    explanation = explain(trace, About(title="odd"))
    assert explanation.breakdown is not None
    assert (explanation.breakdown.orphans, explanation.breakdown.lost_launches) == (0, 0)
    assert figures(explanation) == figures(explained(program()))
