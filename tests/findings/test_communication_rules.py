"""Findings about collectives, on generated traces: one GPU cannot record NCCL."""

import pytest
from ranks import collective, job, message
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import Finding, find, get_rule


def seen(rule: str, trace: TraceBuilder) -> Finding | None:
    found = find(Context(trace.build()), rules=[get_rule(rule)])
    return found[0] if found else None


def test_exposed_communication() -> None:
    """Of a step of 320 us, 100 are an all-reduce beside which nothing is computed."""
    found = seen("exposed-communication", job()[0])
    assert found is not None
    assert found.severity == "high"
    assert found.saving_s == pytest.approx(100e-6, rel=0.05)
    assert found.bound == "at most"


def overlapped() -> TraceBuilder:
    """The same all-reduce while the next layers are computed."""
    builder = TraceBuilder()
    for at in range(0, 2000, 400):
        builder.step(at, at + 390)
        builder.launch(at + 1, at + 3, at + 10, at + 200)
        builder.launch(at + 4, at + 6, at + 200, at + 380)
        collective(builder, at + 7, at + 200, at + 300, **message())
    return builder


def test_what_is_overlapped_is_not_exposed() -> None:
    assert seen("exposed-communication", overlapped()) is None


def small(count: int, elements: int) -> TraceBuilder:
    builder = TraceBuilder()
    for at in range(0, 2840, 710):
        builder.step(at, at + 250)
        builder.launch(at + 1, at + 3, at + 10, at + 100)
        for i in range(count):
            collective(
                builder, at + 10 + 10 * i, at + 100 + 30 * i, at + 120 + 30 * i, **message(elements=elements)
            )
    return builder


def test_many_small_collectives() -> None:
    found = seen("small-collectives", small(20, 256))
    assert found is not None
    assert found.evidence["collectives_per_step"] == 20
    # Each of 19 of them takes 20 us of latency.
    assert found.saving_s == pytest.approx(19 * 20e-6, rel=0.25)
    assert seen("small-collectives", small(20, 1 << 20)) is None
    assert seen("small-collectives", small(4, 256)) is None


def test_collectives_that_wait_for_a_late_rank() -> None:
    """One step of each two is 300 us late on another rank."""
    builder = TraceBuilder()
    at = 0.0
    for number in range(8):
        late = 300 * (number % 2)
        builder.step(at, at + 50)
        builder.launch(at + 1, at + 3, at + 10, at + 210)
        collective(builder, at + 5, at + 210, at + 310 + late, **message())
        at += 340 + late
    found = seen("waiting-collectives", builder)
    assert found is not None
    assert found.saving_s == pytest.approx(150e-6, rel=0.1)
    assert "tare explain with the traces of all ranks" in found.remedy
    # Equal times may all be waiting, but one rank's trace does not tell.
    assert seen("waiting-collectives", job(slow=1, slow_for=200)[0]) is None
