"""Plans from TOML: which cases they make, and how an invalid plan is refused."""

from pathlib import Path

import pytest
from builders import make_case
from catalogues import FakeCatalogue

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.plan import (
    Grid,
    Plan,
    expand_plan,
    fingerprint,
    make_plan,
    open_groups,
    open_names,
    read_plan,
    validate_plan,
)
from tare.errors import BadInput

PLAN = """
name = "nightly"

[options]
rounds = 5
budget = 3.5

[[grid]]
workload = "mlp"
rung = ["eager", "compile"]
batch = [1, 32]
size.width = 64

[[exclude]]
rung = "compile"
batch = 1

[[include]]
workload = "mlp"
rung = "compile:max"
batch = 1
"""
GROUPS = {"vision": ("cnn",), "zoo": ("cnn", "mlp"), "empty": ()}


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "bad.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def cases_of(plan: Plan) -> list[Case]:
    return expand_plan(plan, FakeCatalogue()).cases


def test_a_plan_is_its_grids_less_the_excludes_plus_the_includes(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, PLAN))
    assert plan.name == "nightly"
    assert plan.options == {"rounds": 5, "budget": 3.5}
    assert cases_of(plan) == [
        make_case(batch=1),
        make_case(),
        make_case(rung="compile"),
        make_case(rung="compile:max", batch=1),
    ]


def test_a_plan_without_a_name_is_named_after_its_file(tmp_path: Path) -> None:
    assert read_plan(written(tmp_path, "[grid]\nworkload = 'mlp'")).name == "bad"


def test_a_file_name_that_is_not_utf8_gives_a_valid_plan_name(tmp_path: Path) -> None:
    path = tmp_path / "night\udcff.toml"
    path.write_text("[grid]\nworkload = 'mlp'")
    assert read_plan(path).name == "night\ufffd"


def test_one_table_stands_for_a_list_of_one() -> None:
    assert make_plan({"grid": {"workload": "mlp"}}, "x").grids == [Grid(workload=("mlp",))]


def test_an_include_is_not_excluded_and_nothing_is_there_twice() -> None:
    grid = {"workload": "mlp", "rung": "eager"}
    plan = make_plan({"grid": [grid, grid], "include": [grid], "exclude": [{"workload": "mlp"}]}, "x")
    assert cases_of(plan) == [make_case()]
    assert cases_of(make_plan({"grid": [grid, grid]}, "x")) == [make_case()]


def test_an_exclude_names_devices_as_a_grid_does() -> None:
    grid = {"workload": "mlp", "rung": "eager", "device": "all"}

    def left(device: object) -> list[str]:
        expansion = expand_plan(make_plan({"grid": grid, "exclude": {"device": device}}, "x"), FakeCatalogue())
        return [case.device for case in expansion.cases] + [skip.key.split("/")[3] for skip in expansion.skipped]

    assert left("auto") == left("cpu") == ["cuda"]
    assert left("cuda") == ["cpu"]
    assert left(["cuda", "auto"]) == left("all") == []
    with pytest.raises(BadInput, match="unknown device 'cdua'; did you mean 'cuda'"):
        left("cdua")


def test_excludes_apply_to_skips_too_and_skips_count_once() -> None:
    grid = {"workload": "mlp", "rung": ["eager", "compile"], "device": "cuda"}
    expansion = expand_plan(
        make_plan({"grid": [grid, grid], "exclude": {"rung": "compile"}}, "x"), FakeCatalogue()
    )
    assert expansion.cases == []
    assert [(skip.key, skip.reason) for skip in expansion.skipped] == [
        (make_case(device="cuda").key, "no GPU here")
    ]


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        ({"workload": "mpl"}, "unknown workload 'mpl'; did you mean 'mlp'"),
        ({"rung": "eagre"}, "unknown rung 'eagre'; did you mean 'eager'"),
        ({"size": {"widht": 1}}, "unknown size 'widht'.*did you mean 'width'"),
        ({"workload": "cnn", "size": {"width": 1}}, "unknown size 'width' in the sizes of cnn"),
    ],
)
def test_an_unknown_name_in_an_exclude_is_refused(exclude: dict[str, object], message: str) -> None:
    plan = make_plan({"grid": {"workload": "mlp"}, "exclude": exclude}, "x")
    for function in (validate_plan, expand_plan):
        with pytest.raises(BadInput, match=message):
            function(plan, FakeCatalogue())


@pytest.mark.parametrize("table", ["grid", "include"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"workload": "mpl"}, "unknown workload 'mpl'"),
        ({"rung": "eagre"}, "unknown rung 'eagre'"),
        ({"size": {"widht": 1}}, "unknown size 'widht'"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"optimizer": "sgd"}, "want mode train"),
        ({"batch": list(range(1, 1000)), "threads": list(range(1, 1000))}, "combinations"),
    ],
)
def test_a_plan_is_validated_without_being_expanded(table: str, values: dict[str, object], message: str) -> None:
    class NoCases(FakeCatalogue):
        def refusal(self, case: Case) -> tuple[str, str] | None:
            raise AssertionError(f"{case.key} was made")

    validate_plan(make_plan({table: {"workload": "mlp"}}, "x"), NoCases())
    with pytest.raises(BadInput, match=message):
        validate_plan(make_plan({table: {"workload": "mlp", **values}}, "x"), NoCases())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one"),
        ("name = 'x'\n[options]\nrounds = 1", "at least one"),
        ("grid = []", "at least one"),
        ("[[grids]]\nworkload = 'mlp'", "unknown key 'grids'.*did you mean 'grid'.*exclude, grid, include"),
        ("name = 3\n[grid]\nworkload = 'mlp'", "'name' cannot be 3: want a text"),
        ("name = ''\n[grid]\nworkload = 'mlp'", "'name' cannot be '': want a text of length >= 1"),
        ("options = 3\n[grid]\nworkload = 'mlp'", "'options' cannot be 3: want a table"),
        ("grid = 3", "'grid' cannot be 3: want a list"),
        ("grid = [3]", "'grid' cannot be 3: want a table"),
        ("exclude = [3]\n[grid]\nworkload = 'mlp'", "'exclude' cannot be 3: want a table"),
        ("[[grid]]\nworkload = 'mlp'\n[[grid]]\nbatch = 1", "grid 2: a grid names at least one workload"),
        ("[[grid]]\nworkload = 'mlp'\nmode = 'tain'", "unknown mode 'tain' in .*, grid 1; did you mean 'train'"),
        ("[[grid]]\nworkload = 'mlp'\nbatch = 2026-01-01", "'batch' cannot be datetime"),
        ("[[grid]]\nworkload = 'mlp'\nbatch = nan", "'batch' cannot be nan"),
        (f"[[grid]]\nworkload = 'mlp'\nbatch = 0x{'f' * 5000}", "'batch' cannot be something too large"),
        (f"[[grid]]\nworkload = 'mlp'\nbatch = {'9' * 5000}", "is not TOML: .*4300 digits"),
        ("[[include]]\nworkload = 'mlp'\ncolour = 1", "unknown key 'colour' in .*, include 1"),
        ("[[exclude]]\nbatsch = 1\n[[grid]]\nworkload = 'mlp'", "unknown key 'batsch' in .*, exclude 1"),
        ("[[grid]\nworkload = 'mlp'", "is not TOML: .*line 1"),
        ("a = 1\na = 2", "is not TOML: "),
        ("a = " + "[" * 5000, "is not TOML: "),
        (b"name = '\xff'", "is not TOML: .*utf-8"),
        (b"\x00", "is not TOML: "),
    ],
)
def test_an_invalid_plan_is_refused_with_its_file_and_the_reason(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=message) as caught:
        read_plan(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no plan at .*none\.toml"):
        read_plan(tmp_path / "none.toml")
    with pytest.raises(BadInput, match=f"cannot read {tmp_path}: Is a directory"):
        read_plan(tmp_path)
    with pytest.raises(BadInput, match=r"cannot read .*: File name too long"):
        read_plan(tmp_path / f"{'a' * 300}.toml")


def test_a_fingerprint_depends_on_cases_and_options_but_not_on_their_order() -> None:
    a, b = make_case(), make_case(rung="compile")
    mark = fingerprint([a, b], Options().identity)
    assert mark == fingerprint([b, a], Options(jobs=8).identity)
    assert mark != fingerprint([a], Options().identity)
    assert mark != fingerprint([a, make_case(rung="compile", batch=1)], Options().identity)
    assert mark != fingerprint([a, b], Options(rounds=4).identity)
    assert mark == fingerprint([a, b], Options(rounds=3).identity), "the default, named, is the default"


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
    expansion = expand_plan(open_groups(make_plan(document, "test"), GROUPS), FakeCatalogue())
    assert [case.workload for case in expansion.cases] == ["mlp"]


@pytest.mark.parametrize("table", ["grid", "include", "exclude"])
def test_an_unknown_group_names_the_valid_ones(table: str) -> None:
    document = {"grid": {"workload": "mlp"}} | {table: {"workload": ["mlp", "@visoin"]}}
    with pytest.raises(BadInput, match=r"unknown group '@visoin' in n\.toml; did you mean '@vision'\?") as caught:
        open_groups(make_plan(document, "n.toml", "nightly"), GROUPS)
    assert "(valid: @empty, @vision, @zoo)" in str(caught.value)


def test_the_grids_of_a_plan_are_bounded_together() -> None:
    many = list(range(1, 301))
    grid = {"workload": "mlp", "batch": many, "threads": many}
    validate_plan(make_plan({"grid": [grid]}, "x"), FakeCatalogue())
    with pytest.raises(
        BadInput, match=r"night\.toml has 180000 combinations; split it into plans of at most 100000"
    ):
        validate_plan(make_plan({"grid": [grid, grid]}, "night.toml"), FakeCatalogue())
    with pytest.raises(BadInput, match=r"night\.toml has 180000 combinations"):
        validate_plan(make_plan({"grid": [grid], "include": [grid]}, "night.toml"), FakeCatalogue())


def test_the_tables_of_a_plan_are_bounded() -> None:
    with pytest.raises(BadInput, match=r"night\.toml has 1001 grids; split it into plans of at most 1000"):
        validate_plan(make_plan({"grid": [{"workload": "mlp"}] * 1001}, "night.toml"), FakeCatalogue())
    excludes = [{"batch": number} for number in range(1, 1002)]
    with pytest.raises(BadInput, match=r"night\.toml has 1001 excludes; split it into plans of at most 1000"):
        validate_plan(make_plan({"grid": {"workload": "mlp"}, "exclude": excludes}, "night.toml"), FakeCatalogue())


def test_a_key_of_many_parts_is_not_parsed(tmp_path: Path) -> None:
    """tomllib would take minutes."""
    path = tmp_path / "plan.toml"
    path.write_text(".".join(["a"] * 100_000) + " = 1")
    with pytest.raises(BadInput, match="key of more than 20 parts"):
        read_plan(path)


def test_a_plan_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("# " + "x" * (1 << 20))
    with pytest.raises(BadInput, match=rf"{path} is too large: more than 1 MB"):
        read_plan(path)
