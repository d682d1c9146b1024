"""Thresholds: defaults, overrides by metric and case, and errors that name the valid keys."""

from pathlib import Path
from typing import Any

import pytest
from builders import make_case
from hypothesis import given
from hypothesis import strategies as st

from tare.errors import BadInput
from tare.guard.metrics import METRICS, get_metric
from tare.guard.thresholds import MetricLimits, Thresholds, make_thresholds, read_thresholds, thresholds_path

EAGER = make_case()
COMPILED = make_case(rung="compile")
GROSS, KERNELS = get_metric("gross"), get_metric("kernels")


def test_the_defaults_are_the_torchbench_papers_seven_percent() -> None:
    assert Thresholds().of(EAGER, GROSS) == MetricLimits(0.07, 0.02)
    assert Thresholds().of(EAGER, KERNELS) == MetricLimits(0.0, 0.0)


def test_metrics_and_cases_override_in_that_order() -> None:
    document = {
        "threshold": 0.1,
        "metric": {"gross": {"threshold": 0.05}, "energy": {"ignore": True}},
        "case": [
            {"match": "mlp/compile", "metric": {"gross": {"threshold": 0.03, "margin": 0.01}}},
            {"match": "*compile*", "ignore": True},
        ],
    }
    made = make_thresholds(document, "here")
    assert made.of(EAGER, GROSS) == pytest.approx(MetricLimits(0.05, 0.02 * 5 / 7))
    assert made.of(EAGER, get_metric("latency")) == MetricLimits(0.1, 0.02)
    assert made.of(EAGER, get_metric("energy")).ignore
    assert made.of(COMPILED, GROSS) == MetricLimits(0.03, 0.01, ignore=True)


def test_counts_change_only_if_they_are_named() -> None:
    assert make_thresholds({"threshold": 0.5}, "here").of(EAGER, KERNELS).threshold == 0
    named = make_thresholds({"metric": {"kernels": {"threshold": 0.1}}}, "here")
    assert named.of(EAGER, KERNELS).threshold == 0.1


def test_a_margin_follows_a_smaller_threshold_unless_it_is_said() -> None:
    fine = make_thresholds({"threshold": 0.035}, "here").of(EAGER, GROSS)
    assert (fine.threshold, fine.resolution) == (0.035, 0.035)
    assert fine.margin == pytest.approx(0.01)
    said = make_thresholds({"threshold": 0.03, "margin": 0.02}, "here").of(EAGER, GROSS)
    assert (said.margin, said.resolution) == (0.02, 0.03)
    coarse = make_thresholds({"threshold": 0.5}, "here").of(EAGER, GROSS)
    assert (coarse.margin, coarse.resolution) == (0.02, 0.05)


def test_a_margin_never_exceeds_its_threshold() -> None:
    document = {"threshold": 0.01, "margin": 0.02}
    assert make_thresholds(document, "here").of(EAGER, GROSS) == MetricLimits(0.01, 0.01)


def test_a_file_beside_the_plan(tmp_path: Path) -> None:
    path = thresholds_path(tmp_path / "night.toml")
    assert path == tmp_path / "night.guard.toml"
    path.write_text('threshold = 0.03\n[leak]\nhost = 64\n[[case]]\nmatch = "mlp"\nmetric.latency.ignore = true\n')
    made = read_thresholds(path)
    assert made.of(EAGER, GROSS).threshold == 0.03
    assert made.of(EAGER, get_metric("latency")).ignore
    assert made.leak == {"host": 64.0, "device": 1024.0}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"treshold": 0.1}, "did you mean 'threshold'.*case, leak, margin, metric, threshold"),
    ({"threshold": "7 %"}, "'threshold' is a share such as 0.07"),
    ({"threshold": -0.1}, "share"),
    ({"threshold": 7}, "'threshold' is a share such as 0.07 .at most 1., not 7"),
    ({"metric": {"gross": {"margin": 2}}}, "'margin' is a share"),
    ({"threshold": True}, "share"),
    ({"margin": float("nan")}, "share"),
    ({"metric": {"gros": {}}}, "unknown metric 'gros'.*gross"),
    ({"metric": {"gross": 0.1}}, "metric gross is not a table"),
    ({"metric": {"gross": {"limit": 1}}}, "unknown key 'limit' in here, metric gross.*ignore, margin, threshold"),
    ({"metric": {"gross": {"ignore": 1}}}, "true or false"),
    ({"case": {"match": "x"}}, r"\[\[case\]\]"),
    ({"case": [{}]}, "here, case 1: 'match'"),
    ({"case": [{"match": "x", "colour": 1}]}, "unknown key 'colour' in here, case 1"),
    ({"leak": {"gpu": 1}}, "unknown key 'gpu' in here, leak.*device, host"),
    ({"leak": {"host": "1K"}}, "bytes a step"),
]


@pytest.mark.parametrize(("document", "message"), BAD)
def test_what_is_wrong_is_named_with_what_is_right(document: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_thresholds(document, "here")


def test_unreadable_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no thresholds at"):
        read_thresholds(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff[")
    with pytest.raises(BadInput, match="is not TOML"):
        read_thresholds(tmp_path / "bad.toml")


KEYS = ["threshold", "margin", "metric", "case", "leak", "gross", "match", "ignore", "host", "x"]
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["threshold", "margin", "metric", "case", "leak", "x"]), json_like))
def test_any_document_is_taken_or_refused_in_one_line(document: dict[str, Any]) -> None:
    try:
        made = make_thresholds(document, "here")
    except BadInput as error:
        message = str(error)
    else:
        message = ""
        for metric in METRICS:
            limits = made.of(EAGER, metric)
            assert 0 <= limits.margin <= limits.threshold <= 1
    assert "\n" not in message
