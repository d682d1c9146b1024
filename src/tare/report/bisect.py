"""A bisection for the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.bisect.outcome import Found, Outcome
from tare.errors import Interrupted
from tare.report.table import simple_table

HEADLINES = {
    "found": "",
    "no-difference": "the two ends do not differ by more than the noise: there is nothing to find",
    "undecided": "undecided: the runs allowed did not settle it; --resume with more --runs goes on",
    "not-exact": "a count differed between runs of one candidate: bisect a figure that may be noisy, like gross",
    "ends-failed": "an end could not be measured, so there is nothing to compare with",
}

# From here on digits say nothing more, and a command or another tool may print any number.
MOST_PERCENT = 1e6


def bisect_view(outcome: Outcome) -> RenderableType:
    parts: list[RenderableType] = []
    if outcome.interrupted:
        parts.append(Text(str(Interrupted()), style="yellow"))
    elif outcome.verdict == "found":
        parts += [part for found in outcome.culprits for part in _culprit(found)]
    else:
        parts.append(Text(HEADLINES[outcome.verdict], style="yellow"))
    if outcome.probable:
        parts.append(_probable(outcome))
    parts += [
        Text(f"  skipped {short(s.label)}: cannot {s.stage}: {s.reason}", style="dim") for s in outcome.skipped
    ]
    parts.append(Text(_summary(outcome), style="dim"))
    return Group(*parts)


def short(label: str) -> str:
    """A commit as people write it; anything else as it is."""
    is_commit = len(label) == 40 and all(c in "0123456789abcdef" for c in label)
    return label[:12] if is_commit else label


def change(ratio: float | None, low: float | None, high: float | None) -> str:
    """+5.2 % (+4.8 to +5.6 %); just +5.2 % for a count"""
    if ratio is None:
        return "from nothing"
    text = f"{_percent(ratio)} %"
    if low is None or high is None or low == high:
        return text
    return f"{text} ({_percent(low)} to {_percent(high)} %)"


def _percent(ratio: float) -> str:
    value = (ratio - 1) * 100
    return f"{value:+.1f}" if abs(value) < MOST_PERCENT else f"{value:+.2g}"


def _culprit(found: Found) -> list[RenderableType]:
    worse = "bold red" if found.after > found.before else "bold green"
    name = f"{short(found.culprit)} {found.title}".strip()
    lines: list[RenderableType] = [
        Text(name, style="bold"),
        Text(f"  {change(found.ratio, found.low, found.high)} against {short(found.parent)}", style=worse),
        Text(
            f"  {found.before:.5g} to {found.after:.5g}, {found.runs[0]} and {found.runs[1]} runs; "
            f"a change entered here with probability {found.probability:.1%}"
        ),
    ]
    if len(found.suspects) > 1:
        others = ", ".join(short(label) for label in found.suspects[:-1])
        lines.append(Text(f"  or with one that could not be measured: {others}", style="yellow"))
    return [*lines, *(Text(f"  changed: {line}") for line in found.changed)]


def _probable(outcome: Outcome) -> RenderableType:
    table = simple_table("most suspect", "probability")
    for label, chance in outcome.probable.items():
        table.add_row(short(label), f"{chance:.0%}")
    return table


def _summary(outcome: Outcome) -> str:
    parts = [f"{outcome.runs} runs of {len(outcome.measured)} of {outcome.candidates} candidates"]
    if outcome.ratio is not None:
        whole = change(outcome.ratio, outcome.low, outcome.high)
        parts.append(f"{short(outcome.bad)} against {short(outcome.good)}: {whole}")
    if outcome.noise is not None:
        parts.append(f"noise of a run {outcome.noise:.1%}")
    return "; ".join([*parts, f"journal {outcome.journal}"])
