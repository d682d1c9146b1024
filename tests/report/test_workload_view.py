"""A workload in full: every fact has its line, and what FLOPs leave out is said."""

from typing import Any

import pytest
from builders import make_failure

from tare.protocol.messages import Flops, Inspected, Uncounted
from tare.report.lists import describe_workload, flops_text, workload_view
from tare.report.terminal import make_console
from tare.workloads import Workload

RELU = Uncounted(operator="relu", calls=3, elements=1000)
ATTENTION = Uncounted(operator="_flash_attention_new", calls=2, elements=10)
WORKLOAD = Workload(
    name="w", definition=object(), domain="nlp", task="modelling", source="a paper of 2020", batch=4,
    requires=("a_package_that_nobody_has",), unsupported={"train/bf16": "it overflows"}, groups=("mlperf",),
    counterpart=("hf_other",),
)  # fmt: skip


def inspected(**more: Any) -> Inspected:
    fields: dict[str, Any] = {
        "parameters": 1056, "trainable": 1000, "parameter_bytes": 4224, "buffer_bytes": 0,
        "inputs": ["int64[4, 8]"], "infer": Flops(total=8192, how="by hand", uncounted=[RELU]),
    }  # fmt: skip
    return Inspected(**(fields | more))


def shown(capsys: pytest.CaptureFixture[str], found: Any) -> str:
    make_console().print(
        workload_view(describe_workload(WORKLOAD, {"nlp": ("w",), "mlperf": ("w",), "x": ()}, found))
    )
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    return " ".join(text.split())


def test_every_fact_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, inspected())
    for fact in (
        "nlp, modelling", "a paper of 2020", "stands for hf_other", "@nlp @mlperf",
        "1,056 in 4.12 KiB, 56 of them frozen",
        "not train/bf16 it overflows", "training no", "pip install a_package_that_nobody_has", "int64[4, 8]",
    ):  # fmt: skip
        assert fact in text


def test_a_failure_to_build_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert "could not be built here: exception: it broke" in shown(capsys, make_failure())


def test_what_was_not_counted_is_listed_and_what_multiplies_comes_first() -> None:
    assert flops_text(Flops(total=8192, how="by hand", uncounted=[RELU])) == (
        "8.19 kFLOP, by hand; not counted: relu (3)"
    )
    assert flops_text(Flops(total=8192, how="by hand", uncounted=[RELU, ATTENTION])) == (
        "at least 8.19 kFLOP, by hand; not counted: _flash_attention_new (2), relu (3)"
    )
    enlarged = Uncounted(operator="upsample_bilinear2d", calls=1, elements=9)
    assert not flops_text(Flops(total=1, how="by hand", uncounted=[enlarged])).startswith("at least")
    many = [Uncounted(operator=f"op{i}", calls=1, elements=1) for i in range(9)]
    assert flops_text(Flops(total=0, how="by hand", uncounted=many)).endswith("op5 (1) and 3 more")
    assert flops_text(Flops(reason="ValueError: no")) == "not counted: ValueError: no"
