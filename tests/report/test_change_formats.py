"""Reports of comparisons in every format: valid for who reads them, and nothing of a name can break out."""

import io
import json
import re
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from tare.errors import BadInput
from tare.guard.changes import CallChange, CaseChange, MetricChange, Report
from tare.report.changes import before_and_now, change_of, changes_view, remark, summary_line
from tare.report.formats import all_formats, get_comparison_format
from tare.report.numbers import value

NASTY = "mlp/eager|<script>`x`\n::error::%\x01 ]]>"


def make_change(**overrides: object) -> MetricChange:
    fields: dict[str, object] = {
        "metric": "gross", "unit": "s", "exact": False, "a": 1e-3, "b": 1.1e-3, "ratio": 1.1, "low": 1.08,
        "high": 1.12, "p": 1e-4, "adjusted_p": 1e-3, "rounds_a": 20, "rounds_b": 20, "threshold": 0.07,
        "margin": 0.02, "verdict": "slower", "worse": True, "regression": True, "stage": "confirmed",
    }  # fmt: skip
    return MetricChange(**(fields | overrides))  # type: ignore[arg-type]


SAME = make_change(verdict="same", worse=False, regression=False, ratio=1.0, low=0.99, high=1.01, stage="first")
COUNT = make_change(metric="synchronisations", unit="", exact=True, a=0.0, b=1.0, ratio=None, low=None, high=None,
                    threshold=0.0, verdict="more", stage="first")  # fmt: skip


def make_report(**overrides: object) -> Report:
    cases = [
        CaseChange(
            case="mlp/eager", state="compared", changes=[make_change(), COUNT], leaks=["host memory grows"]
        ),
        CaseChange(case="mlp/compile", state="compared", changes=[SAME]),
        CaseChange(case="lstm/eager", state="broken", reason="signal: ended by SIGSEGV"),
        CaseChange(case="lstm/jax", state="failed", reason="not-installed: no jax"),
    ]
    fields: dict[str, object] = {
        "a": "baseline main, stored", "b": "run 1234", "created": "2026-01-02", "cases": cases,
        "compared": ["software.torch: 2.9.1 against 2.10.0"], "environment": {"cpu": "test", "torch": "2.10.0"},
        "command": "tare check night.toml", "level": 0.01,
    }  # fmt: skip
    return Report(**(fields | overrides))  # type: ignore[arg-type]


CLONE = CallChange(kind="operator", name="aten::clone", status="appeared", before_calls=0, after_calls=2)
SLOWED = CallChange(
    kind="kernel", name="gemm", status="slower", before_calls=1, after_calls=1, before_s=1e-3, after_s=2e-3
)


def nasty_report() -> Report:
    case = CaseChange(case=NASTY, state="compared", changes=[make_change(note=NASTY)], leaks=[NASTY])
    case.call_changes = [CallChange(kind="kernel", name=NASTY, status="appeared", before_calls=0, after_calls=1)]
    broken = CaseChange(case=NASTY, state="broken", reason=NASTY)
    return make_report(cases=[case, broken], a=NASTY, b=NASTY, notes=[NASTY], compared=[NASTY], forced=[NASTY],
                       environment={"cpu": NASTY}, command=NASTY)  # fmt: skip


KERNEL = "void at::native::vectorized_elementwise_kernel<4, a|b>(int, __restrict__ *x_)"


def shown(markdown: str) -> list[str]:
    """The pieces of text that a reader of rendered Markdown sees, code among them."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    return [child.content for token in tokens for child in token.children or () if child.content]


def test_markdown_shows_names_and_reasons_as_they_are() -> None:
    """Kernels of a GPU are templates: as code, an entity would be shown as it is written."""
    case = CaseChange(case=f"mlp/{KERNEL}", state="compared", changes=[make_change(note=KERNEL)])
    case.call_changes = [CallChange(kind="kernel", name=KERNEL, status="appeared", before_calls=0, after_calls=1)]
    broken = CaseChange(case=f"lstm/{KERNEL}", state="broken", reason=f"exception: &lt; {KERNEL}")
    text = get_comparison_format("markdown")(make_report(cases=[case, broken], only_b=[f"gan/{KERNEL}"]))
    pieces = shown(text)
    for name in (KERNEL, f"mlp/{KERNEL}", f"lstm/{KERNEL}", f"gan/{KERNEL}"):
        assert name in pieces
    whole = "".join(pieces)
    assert f"confirmed in 20 fresh rounds, {KERNEL}" in whole
    assert f"fails now: exception: &lt; {KERNEL}" in whole


def test_markdown_tells_nobody_who_is_not_meant() -> None:
    """GitHub looks for names and numbers in what is rendered, not in code."""
    reason = "AttributeError: @property of core #0, a@b"
    broken = CaseChange(case="mlp/eager", state="broken", reason=reason)
    text = get_comparison_format("markdown")(make_report(cases=[broken], command="tare check @smoke"))
    assert not re.search(r"@\w|#\d", text.partition("To reproduce:")[0])
    assert f"fails now: {reason}" in "".join(shown(text)).replace("<!-- -->", "")
    assert "tare check @smoke" in text


@pytest.mark.parametrize("name", ["markdown", "github", "junit", "sarif"])
def test_what_was_forced_is_told_in_every_report(name: str) -> None:
    report = make_report(forced=["machine.cpu: one against another"], notes=["the machine may have changed"])
    text = get_comparison_format(name)(report)
    assert "not comparable" in text
    assert "machine.cpu: one against another" in text
    assert name == "junit" or "the machine may have changed" in text


def test_the_summary_counts_what_is_wrong() -> None:
    assert summary_line(make_report()) == "4 regressions in 2 of 4 cases; gross: 1 slower, 1 same"
    assert make_report().exit_code == 1
    quiet = make_report(cases=[CaseChange(case="a", state="compared", changes=[SAME])])
    assert summary_line(quiet) == "no regression in 1 case; gross: 1 same"
    assert quiet.exit_code == 0


def test_figures_are_written_as_people_read_them() -> None:
    assert change_of(make_change()) == "+10.0 % (+8.0 to +12.0 %)"
    assert change_of(COUNT) == "+1"
    assert change_of(make_change(exact=True, unit="B", a=0.0, b=2048.0)) == "+2 KiB"
    assert change_of(make_change(low=None, high=None)) == "+10.0 %"
    assert change_of(make_change(ratio=64.5, low=0.876, high=1234.5)) == "64.5x (0.876x to 1,230x)"
    assert change_of(make_change(ratio=9.99, low=None, high=None)) == "+899.0 %"
    assert (value(2.5e-3, "s"), value(2048, "B"), value(0.5, "J"), value(7, "")) == (
        "2.5 ms",
        "2 KiB",
        "0.5 J",
        "7",
    )
    assert "confirmed in 20 fresh rounds" in remark(make_change())
    assert remark(make_change(outliers=1)).endswith("1 outlier excluded")
    assert "1 more round would probably decide" in remark(
        make_change(regression=False, worse=False, more_rounds=1)
    )


def test_both_figures_have_one_unit_and_digits_that_show_the_change() -> None:
    near = make_change(a=993e-6, b=1.0377e-3, ratio=1.045, low=1.029, high=1.082)
    assert before_and_now(near) == ("993 µs", "1038 µs")
    assert before_and_now(make_change(a=1.0e-3, b=1.021e-3, ratio=1.021, low=1.020, high=1.022)) == (
        "1.000 ms",
        "1.021 ms",
    )
    assert before_and_now(make_change(a=1.0e-3, b=1.0201e-3, low=0.9, high=1.15)) == ("1.0 ms", "1.0 ms")
    assert before_and_now(make_change(unit="B", a=2.0**30, b=1.02 * 2**30, low=None, high=None)) == (
        "1.000 GiB",
        "1.020 GiB",
    )
    assert before_and_now(make_change(a=2e-6, b=1e-3)) == ("2.0 µs", "1.0 ms")
    assert before_and_now(COUNT) == ("0", "1")


def test_a_remark_says_no_more_than_the_interval() -> None:
    assert remark(make_change(low=1.029, high=1.082)).startswith("perhaps over 7%")
    assert remark(make_change(low=1.075, high=1.082)).startswith("over 7%")
    assert remark(make_change(regression=False, threshold=0.025)).startswith("under the threshold of 2.5%")


def test_markdown_is_as_sure_as_the_design_allows() -> None:
    def told(**overrides: object) -> str:
        cases = [CaseChange(case="a", state="compared", changes=[make_change(**overrides)])]
        return get_comparison_format("markdown")(make_report(cases=cases, level=0.005))

    assert "chance of any false alarm is at most 0.5%: both versions were measured side by side" in told(
        paired=True
    )
    stored = told(paired=False)
    assert "on a machine that is just as it was, the chance of any false alarm is at most 0.5%" in stored
    assert "No rule can tell a change of the machine since then" in stored
    assert "not measured side by side" in told(paired=False, stage="first")
    assert "not measured side by side" not in told(paired=True, stage="first")


@pytest.mark.parametrize("report", [make_report(), nasty_report()], ids=["plain", "nasty"])
def test_the_terminal_view_fits(report: Report) -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(changes_view(report, everything=True))
    text = console.export_text()
    assert max(cell_len(line) for line in text.splitlines()) <= 100
    assert "slower" in text


def test_markdown_says_what_how_much_how_sure_where_and_how_to_reproduce() -> None:
    text = get_comparison_format("markdown")(make_report())
    assert text.startswith("## ❌ 4 regressions in 2 of 4 cases")
    assert "| `mlp/eager` | gross | 1.00 ms | 1.10 ms | +10.0 % (+8.0 to +12.0 %) | **slower** |" in text
    for part in ("fails now: signal", "leaks: host memory", "software.torch: 2.9.1 against 2.10.0", "at most 1.0%",
                 "Environment: cpu test, torch 2.10.0", "tare check night.toml"):  # fmt: skip
        assert part in text


def test_nothing_breaks_out_of_the_markdown() -> None:
    text = get_comparison_format("markdown")(nasty_report())
    body, code = text.split("To reproduce:")
    # As code it may stand there as it is; nothing of it is taken for a tag.
    assert "<script" not in re.sub("`[^`]*`", "", body)
    assert "<script" not in MarkdownIt("commonmark").enable("table").render(text)
    assert code.count("`") == 6
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows
    assert all(line.replace("\\|", "").count("|") == 8 for line in rows)
    assert not any(line.startswith("::error") for line in body.splitlines())


def test_junit_is_xml_with_a_failure_for_each_regression() -> None:
    root = ElementTree.fromstring(get_comparison_format("junit")(make_report()))
    assert root.get("failures") == "4"
    assert len(root.findall(".//failure")) == 4
    assert int(root.get("tests") or 0) == len(root.findall(".//testcase"))
    assert len(root.findall(".//skipped")) == 1
    ElementTree.fromstring(get_comparison_format("junit")(nasty_report()))


def test_github_annotations_are_one_line_each() -> None:
    lines = get_comparison_format("github")(make_report()).splitlines()
    assert sum(line.startswith("::error ") for line in lines) == 4
    assert lines[-1].startswith("::notice title=tare::4 regressions")
    nasty = get_comparison_format("github")(nasty_report())
    assert all(line.startswith("::") and line.isprintable() for line in nasty.splitlines())
    odd = CaseChange(case="a,b:c", state="broken", reason="100%\nmore\x1b[2J")
    (line, *_) = get_comparison_format("github")(make_report(cases=[odd])).splitlines()
    assert line == "::error title=a%2Cb%3Ac::fails now: 100%25%0Amore\ufffd[2J"


def test_sarif_has_a_result_for_each_regression() -> None:
    document = json.loads(get_comparison_format("sarif")(make_report()))
    results = document["runs"][0]["results"]
    assert document["version"] == "2.1.0"
    assert {(r["ruleId"], r["level"]) for r in results} == {
        ("gross", "error"), ("synchronisations", "error"), ("leak", "error"), ("broken", "error")
    }  # fmt: skip
    rules = {rule["id"] for rule in document["runs"][0]["tool"]["driver"]["rules"]}
    assert rules == {r["ruleId"] for r in results}


def test_github_action_benchmark_gets_smaller_is_better() -> None:
    entries = json.loads(get_comparison_format("benchmark")(make_report()))
    assert [entry["name"] for entry in entries] == [
        "mlp/eager gross",
        "mlp/eager synchronisations",
        "mlp/compile gross",
    ]
    assert all(set(entry) == {"name", "unit", "value", "range", "extra"} for entry in entries)
    assert entries[0]["value"] == 1.1e-3


def test_every_format_takes_every_report() -> None:
    for name in (each.name for each in all_formats() if each.takes == "comparison"):
        assert get_comparison_format(name)(nasty_report())
        assert get_comparison_format(name)(make_report(cases=[]))
    with pytest.raises(BadInput, match=r"unknown format 'xml'.*junit.*terminal"):
        get_comparison_format("xml")


def test_markdown_says_what_the_regressed_step_does_otherwise() -> None:
    report = make_report()
    report.cases[0].call_changes = [SLOWED, CLONE]
    report.cases[0].call_changes_by = "profile"
    report.cases[1].call_changes = [CLONE]
    text = get_comparison_format("markdown")(report)
    assert "| slower | kernel | `gemm` | 1 | 1.0 ms | 2.0 ms |" in text
    assert "| appeared | operator | `aten::clone` | 0 → 2 |  |  |" in text
    assert text.count("differs in") == 1, "a case that is as fast as before is left in peace"


def test_the_terminal_names_a_few_of_them() -> None:
    report = make_report()
    report.cases[0].call_changes = [SLOWED, *[CLONE] * 9]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(changes_view(report))
    text = console.export_text()
    assert "slower: kernel gemm, 1.0 ms to 2.0 ms a step" in text
    assert "appeared: operator aten::clone, 0 to 2 calls a step" in text
    assert "and 4 more" in text


def test_every_format_names_what_was_not_compared() -> None:
    report = make_report(only_b=["mlp/new", "mlp/newer"], only_a=["mlp/old"])
    assert summary_line(report).startswith("4 regressions in 2 of 4 cases, 2 not compared; ")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(changes_view(report))
    texts = [
        console.export_text(),
        *(get_comparison_format(name)(report) for name in ("markdown", "github", "sarif")),
    ]
    for text in texts:
        assert "not compared, only in run 1234" in text
        assert all(key in text for key in ("mlp/new", "mlp/newer", "mlp/old"))
    root = ElementTree.fromstring(get_comparison_format("junit")(report))
    assert {suite.get("name") for suite in root if suite.find("testcase/skipped") is not None} == {
        "lstm/jax", "mlp/new", "mlp/newer", "mlp/old"
    }  # fmt: skip
    assert int(root.get("tests") or 0) == len(root.findall(".//testcase"))
