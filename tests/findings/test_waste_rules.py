"""What is computed and not used: positions, padding, rows of a table; and products far below their shape. Savings
are worked out by hand."""

from typing import Any

import pytest
from synthetic import HALF, SIMT, TF32, device_bound, kernels, seen, steps
from traces import TraceBuilder

HIDDEN, WEIGHT, LOGITS = [8, 512, 64], [1000, 64], [8, 512, 1000]
LAST = 2**63 - 1


def shaped(*dims: Any, values: tuple[object, ...] = ()) -> dict[str, Any]:
    """The inputs of an operator: shapes, of which [] is a number, and the values of the numbers."""
    kinds = ["Scalar" if shape == [] else "float" for shape in dims]
    return {
        "Input Dims": list(dims),
        "Input type": kinds,
        "Concrete Inputs": ["", *map(str, values)],
        "Input Strides": [],
    }


def logits(*following: tuple[str, dict[str, Any]]) -> TraceBuilder:
    """A product of 88 us, the projection of 512 us, and operators behind it of 64 us each."""

    def step(trace: TraceBuilder, at: float) -> None:
        busy = at + 10.0
        parts = [("mm", 88.0, {}), ("linear", 512.0, shaped(HIDDEN, WEIGHT, []))]
        parts += [(name, 64.0 if name != "select" else 0.0, inputs) for name, inputs in following]
        for number, (name, length, inputs) in enumerate(parts):
            start = at + 8 * number
            trace.op(f"aten::{name}", start, start + 6, **inputs)
            if length:
                trace.launch(start + 1, start + 4, busy, busy + length, kernel=name)
                busy += length

    return device_bound(step, 1200)


LAST_POSITION = ("select", shaped(LOGITS, [], [], values=(1, -1)))
OF_ONE = shaped([8, 1000])


@pytest.mark.parametrize(
    ("rates", "saving", "bound"),
    [
        # A 512th of 512 us is left, and of the conversion's 64.
        ({}, 511 + 63.875, "at most"),
        # To read the weight of 256,000 bytes takes 100 us.
        ({"bandwidth": 2.56e9}, 412 + 63.875, ""),
    ],
)
def test_logits_of_which_the_last_are_used(rates: dict[str, float], saving: float, bound: str) -> None:
    trace = logits(("float", shaped(LOGITS)), LAST_POSITION, ("argmax", OF_ONE))
    found = seen("unused-positions", trace, rates=rates)
    assert found is not None
    assert found.evidence["used_share"] == pytest.approx(1 / 512)
    assert found.saving_s == pytest.approx(saving * 1e-6, rel=0.01)
    assert found.bound == bound


@pytest.mark.parametrize(
    ("following", "used"),
    [
        ([("slice", shaped(LOGITS, [], [], [], [], values=(1, -1, LAST, 1)))], 1 / 512),
        ([("narrow", shaped(LOGITS, [], [], [], values=(1, 500, 4)))], 4 / 512),
        ([("index_select", shaped(LOGITS, [], [16], values=(1, "")))], 16 / 512),
        # Of the first sample, the last position.
        (
            [
                ("select", shaped(LOGITS, [], [], values=(0, 0))),
                ("select", shaped([512, 1000], [], [], values=(0, -1))),
            ],
            1 / 4096,
        ),
        # The indices are not recorded, but what is computed of the result.
        ([("index", shaped(LOGITS)), ("argmax", OF_ONE)], 8 / 4096),
    ],
)
def test_positions_are_chosen_in_many_ways(following: list[tuple[str, dict[str, Any]]], used: float) -> None:
    found = seen("unused-positions", logits(*following))
    assert found is not None
    assert found.evidence["used_share"] == pytest.approx(used)


@pytest.mark.parametrize(
    "following",
    [
        # A loss over all positions but the last.
        [("slice", shaped(LOGITS, [], [], [], [], values=(1, 0, -1, 1))), ("cross_entropy", shaped([4088, 1000]))],
        # The last position, and then all of them.
        [LAST_POSITION, ("argmax", OF_ONE), ("log_softmax", shaped([4096, 1000], []))],
        # Queries, keys and values: features are chosen, and not positions.
        [("slice", shaped(LOGITS, [], [], [], [], values=(2, 0, 64, 1))), ("mul", shaped([8, 512, 64]))],
        [("softmax", shaped(LOGITS, [])), LAST_POSITION],
        # What is chosen is not told, or no operator follows.
        [("select", {"Input Dims": [LOGITS, [], []]})],
        [],
        # What is chosen from is something else.
        [("select", shaped([8, 512, 64], [], [], values=(1, -1)))],
    ],
)
def test_a_projection_that_is_used_is_left_alone(following: list[tuple[str, dict[str, Any]]]) -> None:
    assert seen("unused-positions", logits(*following)) is None


def table_trace(rows: int = 100_000, looked_up: int = 1000, tied: bool = False, **inputs: Any) -> TraceBuilder:
    """A table of `rows` x 16: 100 us to zero it, 50 for the gradient of what was looked up, and 400 us for an
    optimizer that goes over this table and 3 times as many other parameters."""

    def step(trace: TraceBuilder, at: float) -> None:
        gradient = shaped([looked_up, 16], [looked_up], [], [], [], values=("", rows, -1, False))
        trace.op("autograd::engine::evaluate_function: EmbeddingBackward0", at, at + 30)
        trace.op("aten::embedding_dense_backward", at + 2, at + 28, **gradient)
        trace.op("aten::zeros", at + 3, at + 12)
        trace.launch(at + 5, at + 8, at + 20, at + 120, kernel="fill")
        trace.launch(at + 15, at + 20, at + 120, at + 170, kernel="embedding_backward")
        trace.op("aten::mm", at + 31, at + 36, **shaped([64, rows if tied else 300], [rows if tied else 300, 16]))
        trace.launch(at + 32, at + 35, at + 170, at + 370, kernel=HALF)
        for part, shape in enumerate(([rows, 16], [rows, 16], [rows, 32])):
            trace.op("torch::autograd::AccumulateGrad", at + 37 + part, at + 37.5 + part, **shaped(shape))
        trace.annotation("Optimizer.step#Adam.step", at + 40, at + 80)
        lists = {"Input Dims": [[[rows, 16], [rows, 48]], []], "Input type": ["TensorList", ""]} | inputs
        trace.op("aten::_fused_adam_", at + 45, at + 75, **lists)
        trace.launch(at + 50, at + 60, at + 370, at + 770, kernel="multi_tensor")

    return device_bound(step, 1000)


@pytest.mark.parametrize("lists", [{}, {"Input Dims": [[], []]}])
def test_a_gradient_as_large_as_its_table(lists: dict[str, Any]) -> None:
    """A hundredth of the rows is looked up: 99 of 100 us of zeroing go, and 99 of the 100 us of the optimizer that
    are for the table. The profiler records no shapes of long lists: then all gradients are counted."""
    found = seen("dense-embedding-gradients", table_trace(**lists))
    assert found is not None
    assert found.evidence["looked_up_share"] == pytest.approx(0.01)
    assert found.evidence["bytes_of_tables"] == 100_000 * 16 * 4
    assert found.saving_s == pytest.approx(198e-6, rel=0.02)


@pytest.mark.parametrize(
    "trace",
    [
        # A language model with tied weights has this gradient anyway.
        table_trace(tied=True),
        # A third of the rows, and a table of 64 KiB.
        table_trace(looked_up=34_000),
        table_trace(rows=1000, looked_up=10),
    ],
    ids=["tied", "many rows", "small"],
)
def test_a_gradient_that_is_dense_by_need(trace: TraceBuilder) -> None:
    assert seen("dense-embedding-gradients", trace) is None


def padded(share: object, batch: int = 4, length: int = 100) -> TraceBuilder:
    """200 us for tensors of all positions, in three forms, and 100 us for others."""
    stated = {"tare_padding": {"share": share, "batch": batch, "length": length}}

    def step(trace: TraceBuilder, at: float) -> None:
        busy = at + 10.0
        parts: list[tuple[str, float, list[int]]] = [
            ("linear", 100, [4, 100, 64]), ("addmm", 60, [400, 64]), ("softmax", 40, [4, 8, 100, 100]),
            ("mm", 50, [64, 64]), ("mul", 50, [100, 64]),
        ]  # fmt: skip
        for number, (name, length_us, shape) in enumerate(parts):
            start = at + 8 * number
            trace.op(f"aten::{name}", start, start + 6, **shaped(shape))
            trace.launch(start + 1, start + 4, busy, busy + length_us, kernel=name)
            busy += length_us

    trace = device_bound(step, 400)
    trace.metadata |= stated
    return trace


def test_padding_that_the_recording_states() -> None:
    """A quarter of 200 us."""
    found = seen("padding", padded(0.25))
    assert found is not None
    assert found.saving_s == pytest.approx(50e-6, rel=0.02)
    assert found.evidence["share"] == pytest.approx(200 / 312, rel=0.05)


@pytest.mark.parametrize("share", [0.05, 0, 1, -1, 1.5, "a half", None, True, {"of": 3}])
def test_little_padding_and_malformed_statements_are_ignored(share: object) -> None:
    assert seen("padding", padded(share)) is None


def test_padding_of_other_shapes_is_not_found_in_the_trace() -> None:
    assert seen("padding", padded(0.5, batch=7, length=33)) is None


Run = tuple[tuple[int, int, int, int], str, str, float]


def products(*runs: Run, expanded: bool = False) -> TraceBuilder:
    """Products (batch, m, k, n) of a type, each in a kernel that takes so long."""

    def step(trace: TraceBuilder, at: float) -> None:
        busy = at + 10.0
        for number, ((batch, m, k, n), kind, kernel, length) in enumerate(runs):
            start = at + 8 * number
            strides = [[m * k, k, 1], [0 if expanded else k * n, n, 1]]
            inputs = {"Input Dims": [[batch, m, k], [batch, k, n]], "Input type": [kind, kind]}
            trace.op("aten::bmm", start, start + 6, **inputs, **{"Input Strides": strides})
            trace.launch(start + 1, start + 4, busy, busy + length, kernel=kernel)
            busy += length

    trace = device_bound(step, 2000)
    trace.metadata["deviceProperties"] = [{"id": 0, "name": "Test GPU", "computeMajor": 9}]
    return trace


BF16 = "c10::BFloat16"
SQUARE = (1, 1024, 1024, 1024)


def test_an_equal_product_in_a_faster_kernel() -> None:
    """300 us where the same shape takes 100."""
    trace = products((SQUARE, BF16, HALF, 100), (SQUARE, BF16, f"{HALF}_splitK", 300))
    found = seen("slow-products", trace)
    assert found is not None
    assert found.saving_s == pytest.approx(200e-6, rel=0.02)
    assert found.evidence["flops_per_s"] == pytest.approx(2 * 1024**3 / 300e-6)
    assert found.evidence["usual_flops_per_s"] == pytest.approx(2 * 1024**3 / 100e-6)
    assert [place.where.split(" at ")[0] for place in found.locations] == ["1x1024x1024x1024"]


def test_the_same_kernel_that_takes_longer_once_is_no_other_kernel() -> None:
    """Something beside it delays it."""
    trace = products((SQUARE, BF16, HALF, 100), (SQUARE, BF16, HALF, 100), (SQUARE, BF16, HALF, 300))
    assert seen("slow-products", trace) is None


@pytest.mark.parametrize(
    ("expanded", "length", "saving"),
    [
        # 64 products of one row with a weight of 2 MiB that is the same for all: 2.36 million bytes are read once,
        # at 23.6 GB/s in 100 us. Twice of that is usual.
        (True, 1500, 1300),
        (True, 550, None),
        # Weights of their own are 64 times as many bytes.
        (False, 1500, None),
    ],
)
def test_a_factor_that_is_expanded_over_the_batch(expanded: bool, length: float, saving: float | None) -> None:
    moved = 2 * (64 * 1024 + 1024 * 1024 + 64 * 1024)
    rates = {"bandwidth": moved / 100e-6, "matrix:bf16": 1e15}
    trace = products(((64, 1, 1024, 1024), BF16, HALF, length), expanded=expanded)
    found = seen("slow-products", trace, rates=rates)
    assert (found and found.saving_s) == (saving and pytest.approx(saving * 1e-6, rel=0.02))


def test_float64_among_others_is_measured_by_their_rate() -> None:
    """In float32 the product takes 100 us, twice of which is usual; float64 takes 700."""
    rates = {"matrix:tf32": 2 * 1024**3 / 100e-6, "matrix:fp64": 2 * 1024**3 / 700e-6, "bandwidth": 1e15}
    half = (1, 512, 1024, 1024)
    mixed = products((half, "float", TF32, 100), (SQUARE, "double", "dgemm", 700))
    found = seen("slow-products", mixed, rates=rates)
    assert found is not None
    assert found.saving_s == pytest.approx(500e-6, rel=0.02)
    # Where all is float64, it is meant.
    assert seen("slow-products", products((SQUARE, "double", "dgemm", 700)), rates=rates) is None


@pytest.mark.parametrize(
    "run",
    [
        # off-multiple-shapes and tf32-off report these.
        ((1, 1024, 1023, 1024), BF16, HALF, 1500),
        (SQUARE, "float", SIMT, 1500),
        # Short ones are bound by their latency.
        ((1, 64, 64, 64), BF16, HALF, 15),
    ],
)
def test_other_rules_products_and_short_ones_are_left_alone(run: Run) -> None:
    rates = {"matrix:bf16": 1e15, "matrix:fp32": 1e15, "matrix:tf32": 1e15, "bandwidth": 1e13}
    assert seen("slow-products", products(run, run), rates=rates) is None


def test_a_trace_without_peaks_compares_its_own_products() -> None:
    """One product shows the rate of operations, another one that of bytes. At the first rate an eighth of the
    operations takes 50 us; twice of that is usual, and 6 times is slow."""
    operations: Run = ((1, 4096, 1024, 1024), BF16, HALF, 400)
    moving: Run = ((64, 1, 1024, 1024), BF16, HALF, 100)
    other = (1, 512, 1024, 1024)
    found = seen("slow-products", products(operations, moving, (other, BF16, HALF, 350)))
    assert found is not None
    assert found.saving_s == pytest.approx(250e-6, rel=0.02)
    assert seen("slow-products", products(operations, moving, (other, BF16, HALF, 290))) is None


def test_a_step_without_any_of_it_has_no_finding() -> None:
    trace = steps(lambda trace, at: kernels(trace, at))
    for rule in ("unused-positions", "dense-embedding-gradients", "padding", "slow-products"):
        assert seen(rule, trace) is None
