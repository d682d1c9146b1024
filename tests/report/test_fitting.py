"""Tables on narrow consoles: columns go, in their order, and no figure and no name is cut."""

import io
import re
from collections.abc import Sequence
from typing import Any

import pytest
from builders import make_case, make_record, make_round
from rich.console import Console, RenderableType
from rich.text import Text

from tare.errors import BadInput
from tare.records.record import DeviceMemory, HostMemory, Parity, Record
from tare.report.ladder import COLUMNS, ON_REQUEST, Ladder, ladder_view, make_ladders, read_columns
from tare.report.lists import describe_groups, describe_workloads, list_view
from tare.report.overview import overview, table_view
from tare.report.record import record_view
from tare.report.suite import make_suites, suite_view
from tare.report.view import FittingTable, fold
from tare.rungs.registry import every_name

WIDTHS = (40, 50, 60, 80, 100)
# The median of three rounds of 80.8 µs and a hundredth more each, with its half width.
FIGURE = "82 ±2 µs"
MEMORY: dict[str, Any] = {
    "host_memory": HostMemory(peak=1000 * 2**20, prepare_peak=0, start=0, method="x"),
    "device_memory": DeviceMemory(reserved_peak=int(99.9 * 2**30)),
}


def shown(view: RenderableType, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, no_color=True)
    with console.capture() as captured:
        console.print(view)
    text = captured.get()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    return text


def recorded(rung: str, workload: str = "mlp", step_s: float = 80.8e-6) -> Record:
    rounds = [
        make_round(i, step_s * (1 + i / 100), prepare_s=123.4, cache="warm" if i else "cold", **MEMORY)
        for i in range(3)
    ]
    parity = Parity(status="different", error=1.0, tolerance=0.1, worst="output", compared=1)
    wrong: dict[str, Any] = {"parity": parity} if rung == "aot" else {}
    return make_record(make_case(workload=workload, rung=rung, device="cuda"), rounds=rounds, **wrong)


def head(text: str) -> list[str]:
    return next(line for line in text.splitlines() if "gross" in line).split()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_ladder_keeps_rungs_figures_and_parity(width: int) -> None:
    (ladder,) = make_ladders([recorded(rung) for rung in every_name()])
    text = shown(ladder_view(ladder), width)
    assert {"rung", "gross", "parity"} <= set(head(text))
    assert text.count(FIGURE) == len(every_name())
    assert "DIFFERENT" in text
    # A variant goes under its rung, and neither is broken.
    pieces = {piece for name in every_name() for piece in name.split(":")}
    assert pieces <= set(re.split(r"[\s:]+", text))
    assert width < 100 or set(every_name()) <= set(text.split())


def test_the_least_important_columns_go_first_and_are_named() -> None:
    (ladder,) = make_ladders([recorded(rung) for rung in every_name()])
    gone = {}
    for width in WIDTHS:
        said = " ".join(shown(ladder_view(ladder), width).partition("note:")[0].split()).partition(
            "no room for: "
        )[2]
        gone[width] = set(said.split(", ")) if said else set()
    assert gone[100] == set()
    assert gone[80] <= gone[60] <= gone[50] <= gone[40]
    assert "warm" in gone[80]
    assert "x eager" not in gone[60]


@pytest.mark.parametrize("width", WIDTHS)
def test_other_tables_cut_nothing_either(width: int) -> None:
    names = ("attention_is_all_you_need_pytorch", "mlp", "lstm")
    records = [recorded(rung, name) for name in names for rung in ("eager", "compile:reduce-overhead")]
    table = shown(table_view(records), width)
    assert {"workload", "rung", "gross", "status"} <= set(head(table))
    assert table.count(FIGURE) == len(records)
    (suite,) = make_suites(records)
    assert shown(suite_view(suite), width).count("x") >= len(names)
    rounds = shown(record_view(records[0]), width).partition("round ")[2]
    assert all(f"{figure} ±0.00 µs" in rounds for figure in ("80.80", "81.61", "82.42"))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_list_folds_names_at_their_joints_and_nothing_into_a_thread(width: int) -> None:
    entries = describe_workloads()
    text = shown(list_view(entries, ("workload", "task", "batch", "sizes", "available")), width)
    words = set(text.split())
    for entry in entries:
        name: str = entry["workload"]
        joints = [name[: i + 1] for i, letter in enumerate(name) if letter in "_.-"]
        assert name in words or any(joint in words for joint in joints)
    assert "resolution=224" in words or "sizes" in text.partition("no room for:")[2]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 10, ["short"]),
        ("compile:reduce-overhead", 16, ["compile:", "reduce-overhead"]),
        ("compile:reduce-overhead", 10, ["compile:", "reduce-", "overhead"]),
        ("a value of at most 1 KiB", 12, ["a value of", "at most", "1 KiB"]),
        ("resolution=224 classes=1000", 14, ["resolution=224", "classes=1000"]),
        ("J" * 9, 4, ["JJJJ", "JJJJ", "J"]),
        ("two\nlines here", 5, ["two", "lines", "here"]),
    ],
)
def test_a_text_is_folded_where_a_reader_would(text: str, width: int, lines: Sequence[str]) -> None:
    assert fold(Text(text), width).plain.split("\n") == list(lines)


def test_a_console_that_is_too_narrow_for_what_must_stay_folds_the_names() -> None:
    table = FittingTable([{"rung": "reduceoverhead", "gross": "80.8 ±0.9 µs"}], folds={"rung": 0})
    text = shown(table, 20)
    assert "80.8 ±0.9 µs" in text
    assert "".join(re.findall(r"^(\w+)", text, re.MULTILINE)) == "rungreduceoverhead"


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_group_shows_how_many_it_has_and_all_of_them(width: int) -> None:
    groups = describe_groups()
    text = shown(list_view(groups, ("group", "size", "workloads")), width)
    assert max(map(len, text.splitlines())) <= width
    for one in groups:
        assert one["group"] in text
        assert ",".join(one["workloads"]) in "".join(text.split())
        assert one["size"] == len(one["workloads"]) > 0
    (rl,) = describe_groups(["rl"])
    assert describe_groups(["@rl"]) == [rl]
    assert " ".join(shown(list_view([rl], ("group", "size", "workloads")), width).split()).endswith(
        "@rl 4 LearningToPaint, dqn, drq, soft_actor_critic"
    )


# Columns on request.
def one_ladder(*records: Record) -> Ladder:
    return make_ladders(records)[0]


def cells(text: str, rung: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(rung)).split()


def test_columns_are_shown_only_on_request() -> None:
    record = make_record(tokens_per_step=32 * 64)
    assert not set(ON_REQUEST) & set(head(shown(ladder_view(one_ladder(record)), 100)))
    text = shown(ladder_view(one_ladder(record), ("throughput", "tokens", "p95")), 100)
    assert set(head(text)) & set(ON_REQUEST) == {"throughput", "tokens", "p95"}
    assert {"32,000/s", "2,050,000/s", "1.26"} <= set(cells(text, "eager"))


def test_a_column_without_a_figure_has_a_dash_where_it_was_asked_for() -> None:
    text = shown(ladder_view(one_ladder(make_record()), ("tokens", "p99")), 100)
    assert {"tokens", "p99"} <= set(head(text))
    assert cells(text, "eager").count("-") == 2
    assert "p99 needs 100 single steps" in text
    assert "tokens_per_sample" in text
    other = shown(ladder_view(one_ladder(make_record(tokens_per_step=64)), ("tokens", "p50")), 100)
    assert "tokens_per_sample" not in other
    assert "p99" not in other


@pytest.mark.parametrize("width", [80, 100])
def test_what_was_asked_for_goes_last(width: int) -> None:
    records = [recorded(rung) for rung in every_name()]
    text = shown(ladder_view(one_ladder(*records), ("throughput", "p95", "spread")), width)
    assert {"rung", "gross", "throughput", "p95", "spread", "parity"} <= set(head(text))
    said = text.partition("no room for: ")[2].splitlines()[0]
    assert "warm" in said


def test_all_columns_at_once_still_fit() -> None:
    records = [recorded(rung) for rung in every_name()]
    text = shown(ladder_view(one_ladder(*records), COLUMNS), 60)
    assert {"rung", "gross", "parity"} <= set(head(text))
    assert "no room for: " in text


def test_a_named_column_is_kept_before_others() -> None:
    records = [recorded(rung) for rung in every_name()]
    assert "warm" not in head(shown(ladder_view(one_ladder(*records)), 80))
    assert "warm" in head(shown(ladder_view(one_ladder(*records), ("warm",)), 80))


def test_tables_of_records_have_them_too() -> None:
    records = [make_record(make_case(workload=name), id=name) for name in ("one", "two")]
    assert "throughput" not in head(shown(table_view(records), 100))
    text = shown(overview(records, table=True, columns=("throughput", "device", "host")), 100)
    assert "throughput" in head(text)
    assert "32,000/s" in cells(text, "two")


def test_a_list_with_commas_names_columns_once() -> None:
    assert read_columns("p99, throughput,p99") == ("p99", "throughput")
    assert read_columns(",".join(COLUMNS)) == COLUMNS


@pytest.mark.parametrize("text", ["p98", "throughput,p98", "", "p99,"])
def test_an_unknown_column_is_refused_with_the_valid_ones(text: str) -> None:
    with pytest.raises(
        BadInput, match=r"unknown column '(p98)?' in --columns.*valid: .*p50, p95, p99.*tokens"
    ) as refused:
        read_columns(text)
    assert "\n" not in str(refused.value)
