"""A bisection for the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.bisect.loop import BisectResult, FoundCulprit
from tare.errors import Interrupted
from tare.report.table import simple_table

HEADLINES = {
    "no-difference": "the two ends do not differ by more than the noise: there is nothing to find",
    "undecided": "undecided after the allowed number of runs; --resume with more --runs continues",
    "not-exact": "a count differed between runs of one candidate: bisect a noisy figure instead, such as gross",
    "ends-failed": "an end could not be measured, so there is nothing to compare with",
}

# A larger change is printed with an exponent: a command or another tool may print any number.
MAX_PERCENT = 1e6


def bisect_view(result: BisectResult) -> RenderableType:
    parts: list[RenderableType] = []
    if result.interrupted:
        parts.append(Text(str(Interrupted()), style="yellow"))
    elif result.verdict == "found":
        parts += [part for culprit in result.culprits for part in _culprit(culprit)]
    else:
        parts.append(Text(HEADLINES[result.verdict], style="yellow"))
    if result.probable:
        table = simple_table("most suspect", "probability")
        for label, probability in result.probable.items():
            table.add_row(short(label), f"{probability:.0%}")
        parts.append(table)
    parts += [
        Text(f"  skipped {short(s.label)}: cannot {s.stage}: {s.reason}", style="dim") for s in result.skipped
    ]
    parts.append(Text(_summary(result), style="dim"))
    return Group(*parts)


def short(label: str) -> str:
    """A commit hash as git abbreviates it; any other label unchanged."""
    is_commit = len(label) == 40 and all(c in "0123456789abcdef" for c in label)
    return label[:12] if is_commit else label


def change_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """+5.2 % (+4.8 to +5.6 %); just +5.2 % for a count"""
    if ratio is None:
        return "from nothing"
    text = f"{_percent(ratio)} %"
    if low is None or high is None or low == high:
        return text
    return f"{text} ({_percent(low)} to {_percent(high)} %)"


def _percent(ratio: float) -> str:
    value = (ratio - 1) * 100
    return f"{value:+.1f}" if abs(value) < MAX_PERCENT else f"{value:+.2g}"


def _culprit(culprit: FoundCulprit) -> list[RenderableType]:
    style = "bold red" if culprit.after > culprit.before else "bold green"
    change = change_text(culprit.ratio, culprit.low, culprit.high)
    lines: list[RenderableType] = [
        Text(f"{short(culprit.culprit)} {culprit.title}".strip(), style="bold"),
        Text(f"  {change} against {short(culprit.parent)}", style=style),
        Text(
            f"  {culprit.before:.5g} to {culprit.after:.5g}, {culprit.runs[0]} and {culprit.runs[1]} runs; "
            f"a change entered here with probability {culprit.probability:.1%}"
        ),
    ]
    if len(culprit.suspects) > 1:
        others = ", ".join(short(label) for label in culprit.suspects[:-1])
        lines.append(Text(f"  or in one that could not be measured: {others}", style="yellow"))
    return [*lines, *(Text(f"  changed: {line}") for line in culprit.changes)]


def _summary(result: BisectResult) -> str:
    parts = [f"{result.runs} runs of {len(result.measured)} of {result.candidates} candidates"]
    if result.ratio is not None:
        change = change_text(result.ratio, result.low, result.high)
        parts.append(f"{short(result.bad)} against {short(result.good)}: {change}")
    if result.noise is not None:
        parts.append(f"noise of a run {result.noise:.1%}")
    return "; ".join([*parts, f"journal {result.journal}"])
