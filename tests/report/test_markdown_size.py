"""A report in Markdown is a comment on GitHub, which refuses one of more than 65536 characters."""

from tare.guard.changes import CallChange, CaseChange, MetricChange, Report
from tare.report.formats import get_comparison_format

MOST = 65_536
KEY = "resnet50/compile:reduce-overhead/train/cuda/amp-bf16/batch=32,channels=3/feed=device,number="
CLONE = CallChange(kind="operator", name="aten::clone", status="appeared", before_calls=0, after_calls=2)


def render(cases: list[CaseChange]) -> str:
    report = Report(a="a", b="b", created="2026-01-02", cases=cases, command="tare check night.toml")
    return get_comparison_format("markdown")(report)


def change(worse: bool) -> MetricChange:
    return MetricChange(
        metric="gross", unit="s", exact=False, a=1e-3, b=1.1e-3, ratio=1.1, low=1.08, high=1.12, p=1e-4,
        adjusted_p=1e-3, rounds_a=20, rounds_b=20, threshold=0.07, margin=0.02,
        verdict="slower" if worse else "same", worse=worse, regression=worse,
    )  # fmt: skip


def many(worse: int) -> str:
    """200 cases of eight figures, so many of them worse."""
    return render(
        [
            CaseChange(
                case=f"{KEY}{i}", state="compared", changes=[change(i < worse)] * 8, call_changes=[CLONE] * 40
            )
            for i in range(200)
        ]
    )


def test_what_got_worse_is_all_there_and_the_rest_is_counted() -> None:
    text = many(worse=3)
    rows = text.count("| same |")
    assert len(text) < MOST
    assert (text.count("**slower**"), rows > 100) == (24, True)
    assert f"and {1576 - rows} more (`--format json` has all)" in text
    assert text.endswith("```\ntare check night.toml\n```\n")


def test_where_everything_got_worse_it_fits_as_well() -> None:
    text = many(worse=200)
    assert len(text) < MOST
    assert "and 190 more cases" in text


def test_what_fails_now_comes_before_what_always_failed() -> None:
    cases = [CaseChange(case=f"{KEY}{i}", state="failed", reason="x" * 300) for i in range(200)]
    text = render([*cases, CaseChange(case="mlp/eager", state="broken", reason="signal: ended by SIGSEGV")])
    assert len(text) < MOST
    assert "ended by SIGSEGV\n" in text
    assert "- and 161 more\n" in text
