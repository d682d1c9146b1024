"""Groups in plans: what they open to, what they run on, and how an unknown one is refused."""

import pytest
from catalogues import FakeCatalogue

from tare.cases.plan import expand_plan, make_plan, open_groups, open_names
from tare.errors import BadInput

GROUPS = {"vision": ("cnn",), "zoo": ("cnn", "mlp"), "empty": ()}


def test_groups_and_names_are_opened_in_order_and_once() -> None:
    assert open_names(["mlp", "@zoo", "@vision"], GROUPS) == ("mlp", "cnn")


def test_a_group_runs_on_eager_unless_rungs_are_named() -> None:
    def rungs(**grid: object) -> list[tuple[str, str]]:
        plan = open_groups(make_plan({"grid": [grid]}, "test"), GROUPS)
        return [(case.workload, case.rung) for case in expand_plan(plan, FakeCatalogue()).cases]

    assert rungs(workload=["@zoo"]) == [("cnn", "eager"), ("mlp", "eager")]
    assert rungs(workload=["@vision"], rung=["compile"]) == [("cnn", "compile")]
    assert rungs(workload=["mlp"]) == [("mlp", "eager"), ("mlp", "compile")]


def test_excludes_know_groups_too() -> None:
    document = {"grid": {"workload": "@zoo"}, "exclude": {"workload": "@vision"}}
    found = expand_plan(open_groups(make_plan(document, "test"), GROUPS), FakeCatalogue())
    assert [case.workload for case in found.cases] == ["mlp"]


@pytest.mark.parametrize("table", ["grid", "include", "exclude"])
def test_an_unknown_group_names_the_valid_ones(table: str) -> None:
    document = {"grid": {"workload": "mlp"}} | {table: {"workload": ["mlp", "@visoin"]}}
    with pytest.raises(BadInput, match=r"unknown group '@visoin' in n\.toml; did you mean '@vision'\?") as caught:
        open_groups(make_plan(document, "n.toml", "nightly"), GROUPS)
    assert "(valid: @empty, @vision, @zoo)" in str(caught.value)
