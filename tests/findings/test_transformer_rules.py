"""What transformers do wrong, each on a synthetic trace with the habit and on one with the remedy."""

from typing import Any

import pytest
from synthetic import kernels, seen, steps
from traces import TraceBuilder

HEADS = {"Input Dims": [[8, 16, 512, 512]], "Input type": ["c10::BFloat16"]}


def sequence(trace: TraceBuilder, at: float, *operators: tuple[str, float], **inputs: object) -> float:
    """One kernel an operator, launched every 10 us, and as long as given; the device is the slower one."""
    busy = at + 20.0
    for i, (name, length) in enumerate(operators):
        start = at + 10 * i
        trace.op(f"aten::{name}", start, start + 9, **(inputs if "softmax" in name else {}))
        trace.launch(start + 3, start + 7, busy, busy + length, kernel=name)
        busy += length
    return busy


def device_bound(make: Any, length: float) -> TraceBuilder:
    """Four steps in which the host launches and returns long before the device is done."""
    trace = TraceBuilder()
    for number in range(4):
        at = number * length
        trace.step(at, at + 95, number)
        make(trace, at)
    return trace


def by_hand(trace: TraceBuilder, at: float) -> None:
    chain = ("matmul", 100), ("div", 80), ("masked_fill", 80), ("softmax", 90), ("dropout", 60), ("matmul", 100)
    sequence(trace, at, ("linear", 50), *chain, ("linear", 50), **HEADS)


def fused(trace: TraceBuilder, at: float) -> None:
    sequence(trace, at, ("linear", 50), ("scaled_dot_product_attention", 150), ("linear", 50))


def test_attention_by_hand() -> None:
    found = seen("attention-by-hand", device_bound(by_hand, 600))
    assert found is not None
    assert found.evidence["attentions_per_step"] == 1
    # Scale, mask, softmax and dropout.
    assert found.saving_s == pytest.approx(310e-6, rel=0.05)
    assert found.bound == "at least"
    assert seen("attention-by-hand", device_bound(fused, 300)) is None


@pytest.mark.parametrize(
    ("chain", "dims"),
    [
        # A classifier's output: nothing is multiplied after it.
        ((("linear", 100), ("softmax", 90), ("argmax", 20)), [[8, 1000]]),
        # A gate: two dimensions.
        ((("matmul", 100), ("softmax", 90), ("matmul", 100)), [[8, 64]]),
        # Something else than pointwise operators stands between.
        ((("matmul", 100), ("topk", 50), ("softmax", 90), ("matmul", 100)), [[8, 16, 64]]),
    ],
)
def test_a_softmax_elsewhere_is_no_attention(chain: tuple[tuple[str, float], ...], dims: list[list[int]]) -> None:
    def other(trace: TraceBuilder, at: float) -> None:
        sequence(trace, at, *chain, **{"Input Dims": dims})

    assert seen("attention-by-hand", device_bound(other, 400)) is None


def decoding(grows: bool) -> TraceBuilder:
    """Four layers append a token's key and value to a cache of 512 entries and more."""
    trace = TraceBuilder()
    for number in range(5):
        at = 2000 * number
        trace.step(at, at + 100, number)
        busy = at + 10.0
        for i in range(8):
            length = 512 + (number if grows else 0)
            dims = [[[1, 16, length, 64], [1, 16, 1, 64]], []]
            trace.op("aten::cat", at + 10 * i, at + 10 * i + 8, **{"Input Dims": dims})
            trace.launch(at + 10 * i + 2, at + 10 * i + 5, busy, busy + 60, kernel="CatArrayBatchedCopy")
            trace.launch(at + 10 * i + 9, at + 10 * i + 9.5, busy + 60, busy + 200, kernel="gemv")
            busy += 200
    return trace


def test_a_cache_that_grows_by_concatenation() -> None:
    found = seen("growing-cache", decoding(grows=True))
    assert found is not None
    assert found.evidence == {"concatenations_per_step": 8, "entries": 516}
    assert found.saving_s == pytest.approx(8 * 60e-6, rel=0.1)
    # What is as long in every step is no cache.
    assert seen("growing-cache", decoding(grows=False)) is None


def masks(on_device: bool) -> TraceBuilder:
    """A causal mask of 1 MiB in every step, made on the host or on the device."""

    def step(trace: TraceBuilder, at: float) -> None:
        if on_device:
            trace.op("aten::ones", at + 10, at + 30)
            trace.launch(at + 12, at + 16, at + 18, at + 20, kernel="fill")
        else:
            trace.op("aten::ones", at + 10, at + 110)
            trace.op("aten::tril", at + 112, at + 200)
            trace.op("aten::to", at + 202, at + 400)
            trace.op("aten::copy_", at + 204, at + 398)
            copy = trace.call("cudaMemcpyAsync", at + 210, at + 390)
            trace.copy("HtoD (Pageable -> Device)", at + 215, at + 380, copy, 1 << 20)
        kernels(trace, at + 450)

    return steps(step, count=3)


def test_tensors_that_the_host_makes_every_step() -> None:
    found = seen("host-made-tensors", masks(on_device=False))
    assert found is not None
    # From the making of it to the end of its copy.
    assert found.saving_s == pytest.approx(385e-6, rel=0.1)
    assert "device=x.device" in found.remedy
    # Pinning what should not be made there is the wrong remedy.
    assert seen("pageable-copies", masks(on_device=False)) is None
    assert seen("host-made-tensors", masks(on_device=True)) is None
