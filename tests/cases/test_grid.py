"""Grids: which cases they make, in which order, and what is refused."""

from typing import Any

import pytest
from builders import make_case
from catalogues import FakeCatalogue

from tare.cases import plan as plan_module
from tare.cases.plan import Expansion, Skip, expand_plan, make_filter, make_grid, make_plan, matches
from tare.errors import BadInput


def expanded(**table: Any) -> Expansion:
    return expand_plan(make_plan({"grid": table}, "test"), FakeCatalogue())


def short(expansion: Expansion) -> list[tuple[str, str, int]]:
    return [(case.workload, case.rung, case.batch) for case in expansion.cases]


def test_a_grid_that_names_only_workloads_takes_every_default() -> None:
    expansion = expanded(workload=["mlp", "cnn"])
    assert expansion.cases == [
        make_case(),
        make_case(rung="compile"),
        make_case(workload="cnn", batch=8, sizes={"resolution": 32, "depth": 2}),
    ]
    assert expansion.skipped == []


def test_the_order_is_the_order_given_with_the_rungs_innermost() -> None:
    expansion = expanded(workload=["cnn", "mlp"], rung=["compile", "eager"], batch=[4, 1])
    assert short(expansion) == [
        ("cnn", "compile", 4), ("cnn", "eager", 4), ("cnn", "compile", 1), ("cnn", "eager", 1),
        ("mlp", "compile", 4), ("mlp", "eager", 4), ("mlp", "compile", 1), ("mlp", "eager", 1),
    ]  # fmt: skip


def test_every_field_makes_its_combinations() -> None:
    expansion = expanded(
        workload="mlp", rung="eager", mode="infer", precision=["fp32", "bf16"], batch=[1, 2],
        size={"width": [8, 16]}, feed=["device", "pageable"], layout=["contiguous", "channels-last"],
        threads=[1, 2],
    )  # fmt: skip
    assert len(set(expansion.cases)) == len(expansion.cases) == 2**6


def test_a_size_applies_only_to_the_workloads_that_have_it() -> None:
    expansion = expanded(workload=["mlp", "cnn"], rung="eager", size={"resolution": [16, 24]})
    assert [case.sizes for case in expansion.cases] == [
        {"width": 64},
        {"resolution": 16, "depth": 2},
        {"resolution": 24, "depth": 2},
    ]


def test_only_training_takes_optimizers() -> None:
    expansion = expanded(workload=["mlp", "cnn"], rung="eager", mode=["infer", "train"])
    assert [(c.workload, c.mode, c.optimizer) for c in expansion.cases] == [
        ("mlp", "infer", None), ("mlp", "train", "sgd"), ("cnn", "infer", None), ("cnn", "train", "adam"),
    ]  # fmt: skip
    named = expanded(workload="mlp", rung="eager", mode=["infer", "train"], optimizer=["adamw", "sgd"])
    assert [c.optimizer for c in named.cases] == [None, "adamw", "sgd"]


def test_what_cannot_be_measured_is_skipped_with_its_reason() -> None:
    expansion = expanded(workload="mlp", rung="eager", device="all")
    assert expansion.cases == [make_case()]
    assert expansion.skipped == [Skip(make_case(device="cuda").key, "not-installed", "no GPU here")]


def test_repeated_values_count_once() -> None:
    assert short(expanded(workload=["mlp", "mlp"], rung=["eager", "eager"], batch=[2, 2])) == [("mlp", "eager", 2)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"workload": "mpl"}, "unknown workload 'mpl'; did you mean 'mlp'.*valid: cnn, mlp"),
        ({"rung": "compiled"}, "unknown rung 'compiled'; did you mean 'compile'.*compile:max, eager"),
        ({"device": "gpu"}, "unknown device 'gpu'.*auto, cpu"),
        ({"size": {"depth": 1}}, "unknown size 'depth' in the sizes of mlp.*valid: width"),
        ({"mode": "trains"}, "unknown mode 'trains' in test, grid 1; did you mean 'train'.*infer, train"),
        ({"precision": "fp8"}, "unknown precision 'fp8'.*amp-bf16.*tf32"),
        ({"feed": "host"}, "unknown feed 'host'.*device, pageable, pinned"),
        ({"layout": "nhwc"}, "unknown layout 'nhwc'.*channels-last, contiguous"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion'.*adam, adamw, own, sgd"),
        ({"batches": 1}, "unknown key 'batches' in test, grid 1; did you mean 'batch'"),
        ({"batch": 0}, "'batch' cannot be 0: want a whole number"),
        ({"batch": True}, "'batch' cannot be True: want a whole number"),
        ({"batch": 1.5}, "'batch' cannot be 1.5: want a whole number"),
        ({"batch": "8"}, "'batch' cannot be '8': want a whole number"),
        ({"batch": []}, r"'batch' cannot be \[\]: want a list of length >= 1"),
        ({"batch": 1 << 20_000}, "'batch' cannot be something too large to show: want a whole number"),
        ({"threads": [-1]}, "'threads' cannot be -1: want a whole number"),
        ({"threads": [1, 100_000]}, "'threads' cannot be 100000: want a whole number <= 4096"),
        ({"rung": []}, r"'rung' cannot be \[\]: want a list of length >= 1"),
        ({"size": {}}, "'size' cannot be {}: want a table"),
        ({"rung": [1]}, "'rung' cannot be 1: want a text"),
        ({"size": 3}, "'size' cannot be 3: want a table"),
        ({"size": {"width": [0]}}, r"'size' cannot be {'width': \[0\]}: want a whole number >= 1"),
        ({"workload": []}, r"'workload' cannot be \[\]: want a list of length >= 1"),
    ],
)
def test_a_wrong_value_is_refused_with_the_valid_ones(table: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        expanded(**({"workload": "mlp"} | table))


def test_a_grid_needs_a_workload_and_a_filter_does_not() -> None:
    with pytest.raises(BadInput, match="at least one workload"):
        make_grid({"batch": 1}, "test")
    assert make_filter({"batch": 1}, "test") == {"batch": (1,)}


def test_a_grid_too_large_is_refused_before_it_is_expanded() -> None:
    many = list(range(1, 1001))
    with pytest.raises(BadInput, match=r"1000000 combinations.*at most 100000"):
        expanded(workload="mlp", batch=many, threads=many)


def test_the_limit_itself_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MOST_CASES", 6)
    assert len(expanded(workload="mlp", rung="eager", batch=[1, 2, 3], size={"width": [1, 2]}).cases) == 6
    with pytest.raises(BadInput, match="8 combinations"):
        expanded(workload="mlp", rung="eager", batch=[1, 2, 3, 4], size={"width": [1, 2]})


def test_a_device_that_no_key_can_hold_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCatalogue, "devices", lambda _, name: [name])
    with pytest.raises(BadInput, match="device"):
        expanded(workload="mlp", device="cuda:" + "9" * 40)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, True),
        ({"workload": "mlp"}, True),
        ({"workload": "cnn"}, False),
        ({"batch": [1, 32]}, True),
        ({"batch": [1, 2]}, False),
        ({"device": "cuda"}, True),
        ({"device": "cuda:1"}, True),
        ({"device": "cuda:0"}, False),
        ({"size": {"width": 64}}, True),
        ({"size": {"width": 65}}, False),
        ({"size": {"depth": 2}}, False),
        ({"workload": "mlp", "batch": 1}, False),
        ({"threads": 1}, False),
    ],
)
def test_a_rule_matches_where_all_its_fields_do(rule: dict[str, Any], expected: bool) -> None:
    assert matches(make_case(device="cuda:1"), make_filter(rule, "test")) is expected


def test_smoke_takes_the_small_sizes_where_none_are_named() -> None:
    (plain,) = expanded(workload="cnn", smoke=True).cases
    assert (plain.batch, plain.sizes) == (2, {"resolution": 8, "depth": 2})
    (named,) = expanded(workload="cnn", smoke=True, batch=5, size={"depth": 7}).cases
    assert (named.batch, named.sizes) == (5, {"resolution": 8, "depth": 7})


def test_a_batch_to_be_searched_for_is_kept_apart_from_the_cases() -> None:
    for batch in ("auto", ["auto"]):
        expansion = expanded(workload="mlp", batch=batch)
        assert expansion.cases == []
        assert [(case.rung, case.batch) for case in expansion.searched] == [("eager", 1), ("compile", 1)]


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"smoke": "yes"}, "'smoke' cannot be 'yes': want true or false"),
        ({"batch": ["auto", 8]}, "'batch' cannot be 'auto': want a whole number"),
        ({"smok": True}, "did you mean 'smoke'"),
    ],
)
def test_smoke_and_auto_are_refused_where_they_make_no_sense(table: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        make_grid({"workload": "mlp"} | table, "test")


@pytest.mark.parametrize("rule", [{"batch": "auto"}, {"smoke": True}])
def test_an_exclude_takes_neither_smoke_nor_auto(rule: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        make_filter(rule, "test")
