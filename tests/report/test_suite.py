"""Suites: geometric means with n of m, failures listed and never averaged away."""

import json
import math

import pytest
from builders import make_case
from suite_records import failed, record, records

from tare.cases.plan import Skip
from tare.records.codec import encode
from tare.report.formats import get_record_format
from tare.report.overview import overview, table_rows
from tare.report.suite import Suite, make_suites, suite_lines, suite_view
from tare.report.terminal import make_console
from tare.workloads import all_workloads


def suite(skipped: list[Skip] | None = None) -> Suite:
    (found,) = make_suites(records(), skipped or [])
    return found


def test_means_are_over_those_that_ran_on_both_sides() -> None:
    found = suite()
    assert [pair.label for pair in found.pairs] == ["a", "b"]
    assert found.speedup is not None
    assert (found.speedup.n, found.speedup.m) == (2, 6)
    mean = found.speedup
    assert [mean.value, mean.low, mean.high] == pytest.approx([2.0, 1.0, 4.0])
    assert found.host_memory is not None
    assert found.host_memory.value == pytest.approx(1.0)
    assert found.device_memory is not None
    assert found.device_memory.value == pytest.approx(math.sqrt(2.0))


def test_what_is_skipped_says_why() -> None:
    key = make_case(workload="f", rung="compile", device="cuda").key
    missed = {one.label: one.cause for one in suite([Skip(key, "unsupported", "no graph")]).missed}
    assert missed == {
        "c": "compile failed: device-oom in prepare: no room",
        "d": "compile does not compute the same (different)",
        "e": "eager failed: device-oom in prepare: no room",
        "f": "compile was not measured (unsupported: no graph)",
    }


@pytest.mark.parametrize("rung", ["compile", "compile:reduce-overhead"])
def test_what_a_workload_says_of_itself_is_the_reason(rung: str) -> None:
    """Of records in a file nobody knows any more what was skipped beside them."""
    kept = [record("hf_Reformer", "eager", 1e-3), record("lstm", "eager", 1e-3), record("lstm", rung, 1e-3)]
    (found,) = make_suites(kept)
    (missed,) = found.missed
    declared = all_workloads()["hf_Reformer"].unsupported["compile/infer"]
    assert missed.cause == f"{rung} was not measured (unsupported: {declared})"


def test_every_line_says_n_of_m() -> None:
    lines = suite_lines(suite())
    assert len(lines) == 3
    assert all("over 2 of 6 workloads" in line for line in lines)
    (none,) = make_suites([failed("a", "compile"), record("a", "eager", 1.0), failed("b", "compile")])
    assert "0 of 2" in suite_lines(none)[0]


def test_one_ladder_or_one_rung_is_no_suite() -> None:
    assert make_suites(records()[:2]) == []
    assert make_suites([r for r in records() if r.case.rung == "eager"]) == []


def test_settings_do_not_mix() -> None:
    train = [
        record(name, rung, 1e-3, case=make_case(workload=name, rung=rung, device="cuda", mode="train"))
        for name in ("a", "b")
        for rung in ("eager", "compile")
    ]
    titles = [found.title for found in make_suites([*records(), *train])]
    assert titles == ["infer · cuda · fp32", "train · cuda · fp32"]


def test_a_workload_at_two_batches_is_two_entries() -> None:
    both = [
        record("a", rung, 1e-3, case=make_case(workload="a", rung=rung, batch=batch))
        for rung in ("eager", "compile")
        for batch in (1, 8)
    ]
    assert make_suites(both) == []
    others = [record("b", rung, 1e-3, case=make_case(workload="b", rung=rung)) for rung in ("eager", "compile")]
    (found,) = make_suites([*both, *others])
    assert [pair.label for pair in found.pairs] == ["a b1 width=64", "a b8 width=64", "b"]


def test_the_terminal_and_the_documents_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    console.print(overview(records()))
    texts = [
        capsys.readouterr().out,
        get_record_format("markdown")(records()),
        get_record_format("table")(records()),
    ]
    for text in texts:
        assert "2.00x, geometric mean over 2 of 6 workloads" in text
        assert "skipped: c: compile failed: device-oom in prepare: no room" in " ".join(text.split())
    assert max(map(len, texts[0].splitlines())) <= 100
    assert json.loads(encode(suite()))["speedup"]["m"] == 6


def test_many_records_are_a_table() -> None:
    rows = table_rows(records())
    # All on one device in one precision: no columns for those.
    assert list(rows[0]) == ["workload", "rung", "batch", "gross", "latency", "host", "device memory", "status"]
    assert len(rows) == len(records())
    status = {(row["workload"], row["rung"]): row["status"] for row in rows}
    assert status["a", "eager"] == "same"
    assert status["c", "compile"] == "device-oom"
    assert status["d", "compile"] == "DIFFERENT"
    assert rows[5]["gross"] == "-"


def test_rows_of_one_workload_say_in_which_sizes_they_differ() -> None:
    sizes = ({"hidden": 256, "steps": 25}, {"hidden": 512, "steps": 25})
    several = [record("w", "eager", 1e-3, case=make_case(workload="w", sizes=each)) for each in sizes]
    rows = table_rows([*several, record("v", "eager", 1e-3)])
    assert [row["sizes"] for row in rows] == ["hidden=256", "hidden=512", "-"]


def test_few_ladders_are_shown_whole_and_many_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(count: int, table: bool | None = None) -> str:
        console = make_console()
        console.print(overview([record(f"w{i}", "eager", 1e-3) for i in range(count)], table=table))
        return capsys.readouterr().out

    assert shown(8).count("x eager") == 8
    many = shown(9)
    assert "x eager" not in many
    assert "infer · eager · cuda · fp32 · 9 of 9 measured" in many
    assert "2 of 2 measured" in shown(2, table=True)


def test_a_long_rung_leaves_room_for_the_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("detectron2_fasterrcnn_r_50", "timm_vision_transformer")
    rungs = ("eager", "compile:reduce-overhead")
    found = [record(name, rung, 9.876e-3, 12345, 98765) for name in names for rung in rungs]
    make_console().print(suite_view(make_suites(found)[0]))
    text = capsys.readouterr().out
    assert all(name in text for name in names)
    assert max(map(len, text.splitlines())) <= 100
