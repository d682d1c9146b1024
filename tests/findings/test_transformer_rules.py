"""What transformers do wrong, each on a synthetic trace with the habit and on one with the remedy."""

import pytest
from synthetic import device_bound, kernels, seen, sequence, steps
from traces import TraceBuilder

HEADS = {"Input Dims": [[8, 16, 512, 512]], "Input type": ["c10::BFloat16"]}


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


def test_a_softmax_within_a_fused_operator_is_no_attention_by_hand() -> None:
    """torch's own attention falls back to products and a softmax. Before and after it the program multiplies."""

    def step(trace: TraceBuilder, at: float) -> None:
        sequence(trace, at, ("matmul", 100), ("scaled_dot_product_attention", 300), ("matmul", 100))
        trace.op("aten::softmax", at + 11, at + 18, **HEADS)

    assert seen("attention-by-hand", device_bound(step, 600)) is None


def test_the_projection_of_the_values_may_come_after_the_softmax() -> None:
    """It stays: 80 and 90 us go, of scale and softmax."""

    def step(trace: TraceBuilder, at: float) -> None:
        sequence(trace, at, ("matmul", 99), ("mul", 80), ("softmax", 90), ("linear", 70), ("matmul", 99), **HEADS)

    found = seen("attention-by-hand", device_bound(step, 600))
    assert found is not None
    assert found.saving_s == pytest.approx(170e-6, rel=0.05)


def head(trace: TraceBuilder, at: float, busy: float) -> float:
    """A head of 8 samples, 64 positions and 32 features: 50 us for each product, 20 for the scale, 30 for the
    softmax. Returns when the device is done."""
    scores, mixed = ([[8, 64, 32], [8, 32, 64]], [[8, 64, 64], [8, 64, 32]])
    parts = ("matmul", 50, scores), ("mul", 20, None), ("softmax", 30, [[8, 64, 64]]), ("matmul", 50, mixed)
    for number, (name, length, dims) in enumerate(parts):
        start = at + 4 * number
        inputs = {"Input Dims": dims, "Input type": ["float"] * len(dims)} if dims else {}
        trace.op(f"aten::{name}", start, start + 3.5, **inputs)
        if name == "matmul":
            trace.op("aten::bmm", start + 0.5, start + 3, **inputs)
        trace.launch(start + 1, start + 2, busy, busy + length, kernel=name)
        busy += length
    return busy


@pytest.mark.parametrize(
    ("heads", "joined", "rate", "saving", "bound"),
    [
        # All products stay: of each head 50 us go.
        (4, True, None, 200, "at least"),
        # A head alone takes 150 us. The products of all need 4 x 2 x 2 x 8 x 64 x 64 x 32 operations.
        (4, True, 1e15, 450, ""),
        # At this rate 16.8 million operations take 300 us.
        (4, True, 16.777216e6 / 300e-6, 300, ""),
        (3, True, None, None, ""),
        (4, False, None, None, ""),
    ],
)
def test_attention_head_by_head(
    heads: int, joined: bool, rate: float | None, saving: float | None, bound: str
) -> None:
    def step(trace: TraceBuilder, at: float) -> None:
        busy = at + 20
        for number in range(heads):
            trace.op("aten::select", at + 20 * number, at + 20 * number + 1)
            busy = head(trace, at + 20 * number + 2, busy)
        trace.op("aten::cat" if joined else "aten::add", at + 80, at + 85)
        trace.launch(at + 81, at + 84, busy, busy + 10, kernel="join")

    trace = device_bound(step, 1000)
    found = seen("attention-in-a-loop", trace, rates={"matrix:fp32": rate} if rate else {})
    assert (found is not None) == (saving is not None)
    if found is not None and saving is not None:
        assert found.evidence["softmaxes_per_loop"] == 4
        assert found.saving_s == pytest.approx(saving * 1e-6, rel=0.03)
        assert found.bound == bound
        # It is not reported twice.
        assert seen("attention-by-hand", trace) is None


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
    # Of each 60 us an empty kernel is left.
    assert found.saving_s == pytest.approx(8 * 58e-6, rel=0.02)
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
