"""Memory on the terminal: its owners, and a note where they are unknown."""

from typing import Any

from rich.console import RenderableType
from traces import TraceBuilder

from tare.findings.diagnosis import diagnose
from tare.report.findings import NO_MEMORY, UNKNOWN_OWNER, diagnosis_view
from tare.report.terminal import make_console


def shown(view: RenderableType) -> str:
    console = make_console()
    with console.capture() as capture:
        console.print(view)
    return capture.get()


def on_the_host(**metadata: Any) -> TraceBuilder:
    trace = TraceBuilder(**metadata)
    trace.step(0, 100)
    trace.op("aten::mm", 10, 60)
    return trace


def test_a_trace_without_allocations_has_a_note() -> None:
    assert NO_MEMORY in shown(diagnosis_view(diagnose(on_the_host().build())))


def test_in_a_foreign_trace_earlier_allocations_have_no_owner() -> None:
    trace = on_the_host()
    trace.memory(20, 2048, 0xA0, 2048, cuda=False)
    trace.memory(50, -4096, 0xB0, 0, cuda=False)
    text = shown(diagnosis_view(diagnose(trace.build())))
    assert "host memory: peak 6 KiB allocated by torch, without what was allocated before the recording" in text
    assert UNKNOWN_OWNER.strip() in text


def test_in_a_trace_of_tare_weights_belong_to_modules() -> None:
    known = {"weights": 1024, "device": "cpu", "modules": {"weights": {"fc (Linear)": 1024}}}
    trace = on_the_host(tare_profiled={"resident": known})
    trace.memory(20, 2048, 0xA0, 2048, cuda=False)
    text = shown(diagnosis_view(diagnose(trace.build())))
    assert "host memory: peak 3 KiB allocated by torch\n" in "\n".join(line.rstrip() for line in text.splitlines())
    assert any("weights" in line and "fc (Linear)" in line for line in text.splitlines())
    assert UNKNOWN_OWNER.strip() not in text
