"""Patterns in the sequence of operators that a program calls."""

import pytest
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.rules.by_hand import ACTIVATION, LOSS, NORM, ROTARY, SILU
from tare.findings.sequences import words

PATTERNS = {"norm": NORM, "activation": ACTIVATION, "loss": LOSS, "rotary": ROTARY, "silu": SILU}


def context_of(*operators: str) -> Context:
    """A step that calls these one after the other; an operator in brackets is called by the one before it."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    at = 0
    for number, name in enumerate(operators):
        if name.startswith("("):
            trace.op(f"aten::{name.strip('()')}", at + number / 10, at + number / 10 + 0.05)
        else:
            at += 10
            trace.op(name if "::" in name else f"aten::{name}", at, at + 8)
    return Context(trace.build())


def found(text: str, pattern: str) -> list[str]:
    """The operators of each match in a text of operators."""
    context = context_of(*text.split())
    names, table = context.trace.name, context.trace.operators
    matches = context.sequences.find(PATTERNS[pattern] if pattern in PATTERNS else words(pattern))
    return [" ".join(names(table, row).removeprefix("aten::") for row in rows) for rows in matches]


def test_words_are_whole_and_views_stand_anywhere() -> None:
    assert found("mul view add_ t add", "mul add") == ["mul view add_"]
    assert found("mul_sparse add addmm", "mul add|add") == ["add"]
    assert found("mul add mul add", "mul add") == ["mul add", "mul add"]
    assert found("", "mul") == []


def test_a_conversion_before_it_belongs_to_a_match_and_a_view_does_not() -> None:
    assert found("view to pow mean", "pow mean") == ["to pow mean"]
    assert found("to view pow mean", "pow mean") == ["pow mean"]


def test_what_an_operator_calls_is_none_of_the_programs() -> None:
    assert found("layer_norm (mean) (rsqrt) mul", "mean rsqrt|layer_norm mul") == ["layer_norm mul"]


def test_autograd_interrupts_a_sequence() -> None:
    assert found("mul autograd::engine::evaluate_function:MulBackward0 add", "mul add") == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        # transformers' LlamaRMSNorm and T5LayerNorm, RMSNorm with sqrt, with a power, and with x * x.
        ("norm", "to pow mean add rsqrt mul to mul"),
        ("norm", "pow mean add sqrt div mul"),
        ("norm", "pow mean add pow mul mul"),
        ("norm", "mul mean add rsqrt mul mul"),
        # LayerNorm with a variance, with squares of what is left, and of the Annotated Transformer.
        ("norm", "mean var sub add sqrt div mul add"),
        ("norm", "mean var sub mul add sqrt div add"),
        ("norm", "mean sub pow mean add rsqrt mul mul add"),
        ("norm", "mean std sub mul add div add"),
        ("norm", "var_mean sub add rsqrt mul mul add"),
        # GPT-2's GELU and a faster one of transformers; with erf; Mish.
        ("activation", "mul pow mul add mul tanh add mul"),
        ("activation", "mul mul mul mul add mul tanh add mul"),
        ("activation", "mul div erf add mul"),
        ("activation", "mul erf add mul mul"),
        ("activation", "softplus tanh mul"),
        ("loss", "softmax log gather"),
        ("loss", "softmax add log mul"),
        ("loss", "amax sub exp sum log sub gather"),
        ("loss", "max sub exp sum div log gather neg"),
        ("loss", "log_softmax one_hot mul sum"),
        # transformers, GPT-J, and halves that are put together at the end.
        ("rotary", "mul neg cat mul add"),
        ("rotary", "neg cat mul mul add"),
        ("rotary", "mul neg stack mul add"),
        ("rotary", "mul mul sub mul mul add stack"),
    ],
)
def test_what_is_written_by_hand_is_found_whole(pattern: str, text: str) -> None:
    assert found(f"linear {text} linear", pattern) == [text]


@pytest.mark.parametrize(
    "text",
    [
        # Fused operators.
        "linear layer_norm linear gelu linear add rms_norm silu mul log_softmax nll_loss",
        # An LSTM cell, a GRU cell, gates, squeeze and excitation.
        "linear linear add sigmoid sigmoid tanh sigmoid mul mul add tanh mul",
        "sigmoid sigmoid mul add tanh rsub mul mul add",
        "mean linear relu linear sigmoid mul",
        "linear sigmoid linear tanh mul",
        # Residuals, label smoothing, entropy, cross entropy with soft targets, a mean squared error.
        "linear add mul add linear",
        "log_softmax exp mul sum neg",
        "softmax log_softmax mul sum mean",
        "log_softmax mul sum mean neg",
        "sub pow mean",
        # AdamW of one parameter, gradient clipping, a moving average of weights.
        "mul lerp mul addcmul sqrt div add addcdiv",
        "linalg_vector_norm stack linalg_vector_norm add reciprocal mul clamp mul",
        "mul add mul add",
        # Pooling, cosine similarity, sampling.
        "mean linear",
        "mul sum mul sum sqrt mul div",
        "div softmax multinomial",
        "topk softmax mul sum",
        # A convolution's epilogue.
        "conv2d batch_norm relu add relu",
    ],
)
def test_what_only_looks_like_it_is_not_found(text: str) -> None:
    assert {name: found(text, name) for name in PATTERNS if name != "silu" and found(text, name)} == {}
