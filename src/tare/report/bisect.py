"""A bisection for the terminal."""

from tare.bisect.loop import BisectResult, FoundCulprit
from tare.errors import Interrupted
from tare.report.numbers import change_text
from tare.report.view import FittingTable, View

HEADLINES = {
    "no-difference": "the two ends do not differ by more than the noise: there is nothing to find",
    "undecided": "undecided after the allowed number of runs; --resume with more --runs continues",
    "not-exact": "a count differed between runs of one candidate: bisect a noisy figure instead, such as gross",
    "ends-failed": "an end could not be measured, so there is nothing to compare with",
}


def bisect_view(result: BisectResult) -> View:
    view = View()
    if result.interrupted:
        view.add("warning", str(Interrupted()))
    elif result.verdict == "found":
        for culprit in result.culprits:
            _add_culprit(view, culprit)
    else:
        view.add("warning", HEADLINES[result.verdict])
    probable = [{"most suspect": short(name), "probability": f"{p:.0%}"} for name, p in result.probable.items()]
    view.put(FittingTable(probable, words=("most suspect", "probability")))
    view.add("aside", *(f"skipped {short(s.label)}: cannot {s.stage}: {s.reason}" for s in result.skipped))
    return view.add("faint", _summary(result))


def short(label: str) -> str:
    """A commit hash as git abbreviates it; any other label unchanged."""
    is_commit = len(label) == 40 and all(c in "0123456789abcdef" for c in label)
    return label[:12] if is_commit else label


def _add_culprit(view: View, culprit: FoundCulprit) -> None:
    change = change_text(culprit.ratio, culprit.low, culprit.high)
    view.add("title", f"{short(culprit.culprit)} {culprit.title}")
    is_worse = culprit.after > culprit.before
    view.add("failure" if is_worse else "good", f"{change} against {short(culprit.parent)}")
    view.add(
        "item",
        f"{culprit.before:.5g} to {culprit.after:.5g}, {culprit.runs[0]} and {culprit.runs[1]} runs; "
        f"a change entered here with probability {culprit.probability:.1%}",
    )
    if len(culprit.suspects) > 1:
        others = ", ".join(short(label) for label in culprit.suspects[:-1])
        view.add("warning", f"or in one that could not be measured: {others}")
    view.add("item", *(f"changed: {line}" for line in culprit.changes))


def _summary(result: BisectResult) -> str:
    parts = [f"{result.runs} runs of {len(result.measured)} of {result.candidates} candidates"]
    if result.ratio is not None:
        change = change_text(result.ratio, result.low, result.high)
        parts.append(f"{short(result.bad)} against {short(result.good)}: {change}")
    if result.noise is not None:
        parts.append(f"noise of a run {result.noise:.1%}")
    return "; ".join([*parts, f"journal {result.journal}"])
