"""The tables of every verb on narrow terminals: every figure whole, no line over the edge, and what has no room is
named."""

import io
import re
from collections import Counter
from collections.abc import Callable

import pytest
from builders import ENVIRONMENT, STARTED, make_case, make_record, make_round
from rich.console import Console, Group, RenderableType
from traces import RECORDED

from tare.commands.explain import explain_files
from tare.execute.curves import Curve
from tare.findings.context import Context
from tare.findings.trace_diff import diff_traces
from tare.guard.calibrate import calibrate
from tare.guard.changes import CaseChange, MetricChange, Report
from tare.guard.history import record_histories
from tare.guard.metrics import get_metric
from tare.guard.thresholds import Thresholds
from tare.measure.health import Check
from tare.protocol.messages import Covered, Probed, Registered
from tare.records.call_depth import CallCost, CallDepth, Frame, Stack, compare_costs
from tare.records.figures import record_changes
from tare.records.record import Parity
from tare.records.work import Peak, Peaks
from tare.report.changes import changes_view
from tare.report.coverage import coverage_view, make_coverage
from tare.report.curves import curves_view
from tare.report.diff import diff_view
from tare.report.explain import against_view, group_view, host_view, idle_view, ladder_view, waterfall_view
from tare.report.findings import kernels_view, operators_view
from tare.report.frames import cost_view, depth_view, stack_view
from tare.report.history import histories_view
from tare.report.machine import health_view, peaks_view
from tare.report.noise import noise_view
from tare.report.view import View
from tare.stats.intervals import Interval
from tare.trace.read import read

WIDTHS = (60, 65, 70, 75, 80, 90, 100)
WIDE = 400
# A number with all that belongs to it: its sign, its noise, its unit.
FIGURE = re.compile(r"[<±+-]*\d[\d.]*(?: ±[\d.]+)?(?: (?:%|[mµn]?s\b|[KMGT]i?B(?:/s)?\b|[TGM]?FLOP/s))?")
TRACES = [str(RECORDED / f"resnet50-infer-b1-{rung}.json.gz") for rung in ("eager-stack", "cudagraph")]


def shown(view: RenderableType, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, no_color=True)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def explained() -> RenderableType:
    found = explain_files(TRACES[:1], TRACES[1])
    one, other = found.explanations
    assert one.idle is not None
    assert found.breakdowns is not None
    parts = [waterfall_view(one.waterfall), idle_view(one.idle), host_view(one.host), ladder_view([one, other])]
    return Group(*parts, *map(against_view, found.against), group_view(found.breakdowns))


def tables() -> RenderableType:
    (found,) = explain_files(TRACES[:1]).diagnoses
    return Group(operators_view(found.operators, 1), kernels_view(found.kernels, 1))


def two_traces() -> RenderableType:
    before, after = (Context(read(RECORDED / f"mlp-train-{rung}.json.gz")) for rung in ("eager-stack", "compile"))
    return diff_view(None, diff_traces(before, after), [], 15)


def two_records() -> RenderableType:
    slow = make_record(make_case(rung="torchscript"), steps_s=(2e-3, 2.02e-3, 1.98e-3), id="record000002")
    return diff_view(record_changes(make_record(), slow), None, [], 15)


def compared() -> RenderableType:
    change = MetricChange(
        metric="gross", unit="s", exact=False, a=1.234e-3, b=1.345e-3, ratio=1.09, low=1.0812, high=1.1012, p=1e-4,
        adjusted_p=1e-3, rounds_a=20, rounds_b=20, threshold=0.07, margin=0.02, verdict="slower", worse=True,
        regression=True, stage="confirmed",
    )  # fmt: skip
    case = CaseChange(
        case=make_case(workload="a_workload_with_a_long_name").key, state="compared", changes=[change]
    )
    return changes_view(
        Report(
            a="main",
            b="run",
            created=STARTED,
            cases=[case],
            compared=[],
            environment={},
            command="tare",
            level=0.01,
        )
    )


def histories() -> RenderableType:
    def night(i: int) -> str:
        return f"2026-{1 + i // 28:02d}-{1 + i % 28:02d}T03:00:00+00:00"

    noise = (1.0, 1.004, 0.997, 1.002, 0.995, 1.003)
    records = [
        make_record(
            id=f"r{i:011d}",
            run=f"n{i:011d}",
            created=night(i),
            rounds=[make_round(0, 1e-3 * noise[i % 6] * (1.2 if i >= 30 else 1))],
        )
        for i in range(60)
    ]
    (history,) = record_histories(records, get_metric("gross"))
    assert history.change_points
    return Group(histories_view([history]), histories_view([history, history]))


def frames() -> RenderableType:
    native = (
        Frame("cudnnBackendExecute", "", "vendor"),
        Frame("at::native::_convolution_with_a_name_that_is_long", "libtorch_cuda.so", "framework"),
        Frame("_PyEval_EvalFrameDefault", "libpython3.11.so.1.0", "interpreter"),
        Frame("__libc_start_main", "libc.so.6", "system"),
    )
    python = (Frame("Conv2d.forward", "conv.py:553", "python"),) * 9
    stack = Stack(entry="cudnnBackendExecute", kind="convolution", anchored=True, python=python, native=native)
    rungs = ("eager", "compile:reduce-overhead", "libtorch:script")
    depths = [CallDepth(case=make_case(rung=rung), stack=stack, calls=53, least=12, most=57) for rung in rungs]
    prices = [
        CallCost(rung=one.case.rung, depth=one, call=Interval(mid - 1e-6, mid, mid + 1e-6), parity="same")
        for one, mid in zip(depths, (12e-6, 1.234e-4, 2e-6), strict=True)
    ]
    cost = compare_costs(prices, Interval(1e-9, 1e-9, 1e-9), Interval(5e-8, 5e-8, 5e-8))
    return Group(depth_view(depths), stack_view(depths[0]), cost_view(cost))


def ceilings() -> RenderableType:
    peaks = [
        Peak(name="matrix:fp32", value=123.4e9, unit="FLOP/s", rounds=[123.4e9, 120e9]),
        Peak(name="bandwidth", value=12.3e9, unit="B/s", rounds=[12.3e9, 12.1e9]),
    ]
    return peaks_view(Peaks(device="cpu", created=STARTED, environment=ENVIRONMENT, peaks=peaks))


def noise() -> RenderableType:
    steps = [1e-3 * (1 + 0.01 * (i % 3)) for i in range(12)]
    return noise_view(calibrate([make_record(steps_s=steps)], Thresholds(), [get_metric("gross")]))


def coverage() -> RenderableType:
    registered = Registered(torch="2.10.0+cu128", api=[str(n) for n in range(1387)], aten=["a", "b"], core=["a"])
    called = Covered(api=["1", "2", "a_function_with_a_name_that_is_long"], aten=["a"], core=["a"], others=[])
    answers = [("a_workload_with_a_long_name", "infer", called)]
    groups = {"recommendation": ("a_workload_with_a_long_name",)}
    return coverage_view(make_coverage(registered, "cpu", answers, [], groups))


def proof() -> RenderableType:
    parity = Parity(status="same", error=1.234e-5, tolerance=1e-4, worst="loss/17", compared=30, undecided=20)
    curves = [
        Curve(case=make_case(rung=rung), losses=[2.345, 1.234], reference=[2.345] * 50, parity=parity)
        for rung in ("compile:reduce-overhead", "vendor")
    ]
    return curves_view(curves, "digits", 50)


def health() -> RenderableType:
    checks = [
        Check(name="CPU governor", state="warn", seen="powersave on 14 of 16 logical cores", remedy="set another"),
        Check(name="other GPU processes", state="unknown", seen="not shown (a virtual machine, or no driver)"),
    ]
    probed = Probed(devices=["cpu"], absent={"cpu": {}}, missing_packages={}, gpus={}, environment=ENVIRONMENT)
    return health_view(probed, checks)


EXPLAINING = (explained, tables, two_traces, two_records, ceilings)
VIEWS = (*EXPLAINING, compared, histories, frames, noise, coverage, proof, health)


@pytest.mark.parametrize("make", VIEWS, ids=lambda make: make.__name__)
def test_no_figure_is_cut_or_broken_and_no_line_is_too_long(make: Callable[[], RenderableType]) -> None:
    view = make()
    whole = set(FIGURE.findall(shown(view, WIDE)))
    for width in WIDTHS:
        text = shown(view, width)
        assert max(map(len, text.splitlines())) <= width
        # The axis and the marks of a plot are drawn for the width, and have figures of their own.
        figures = Counter(FIGURE.findall("\n".join(line for line in text.splitlines() if "┤" not in line)))
        assert not figures.keys() - whole, width


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        (explained, ("761 µs", "682 µs", "1.7 ms", "782 µs", "16.6 %", "45.3 %", "88.5 %")),
        (tables, ("276 µs", "185 µs", "24.3%")),
        (two_traces, ("42.2 µs", "23.7 µs", "539 µs", "vanished")),
        (two_records, ("1.0 ms", "2.0 ms", "a clear", "difference")),
        (compared, ("1.23 ms", "1.34 ms", "+9.0 %", "(+8.1 to +10.1 %)", "slower", "over 7%", "confirmed")),
        (histories, ("+20.0 %", "(+19.8 to +20.2 %)", "1.000 ms", "1.200 ms", "2026-02-02", "2026-02-03")),
        (frames, ("12 ±1 µs", "123.4 ±1.0 µs", "2 ±1 µs", "10 ±1 µs", "same")),
        (ceilings, ("123 GFLOP/s", "12.3 GB/s")),
        (noise, ("1.0 ms", "gross")),
        (coverage, ("3   0.2%", "1387", "1 of 1")),
        (proof, ("1.234", "1.2e-05", "1.0e-04", "30 of 50", "same")),
        (health, ("powersave", "14 of 16")),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_matters_stays(make: Callable[[], RenderableType], kept: tuple[str, ...]) -> None:
    view = make()
    for width in WIDTHS:
        text = shown(view, width)
        assert [figure for figure in kept if figure not in text] == [], width


def test_columns_go_and_are_named_where_there_is_no_room() -> None:
    assert "no room for" not in shown(tables(), 100)
    assert re.search(r"no room for: .*host total.*memory", shown(tables(), 60))


def test_a_key_is_broken_where_its_parts_meet() -> None:
    key = make_case(workload="a_workload_with_a_long_name").key
    for width in WIDTHS:
        lines = shown(View().add("key", key), width).splitlines()
        assert "".join(line.strip() for line in lines) == key
        assert all(line[-1] in "/,=" for line in lines[:-1])
