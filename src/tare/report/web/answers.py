"""What a report says first, in words: which rung is the fastest, by how much, and what eager waits for."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tare.report.ladder import Ladder, Row
from tare.report.numbers import seconds, several
from tare.report.suite import BASELINE, Suite
from tare.report.web.figures import Family

# Beyond so many families, only the suites are put into words.
MOST_FAMILIES = 8


def answers(families: Sequence[Family], suites: Iterable[Suite]) -> list[str]:
    said = [_suite_answer(suite) for suite in suites]
    if len(families) <= MOST_FAMILIES:
        said += [_family_answer(family) for family in families]
    return [sentence for sentence in said if sentence]


def _family_answer(family: Family) -> str:
    best = [(ladder, row) for ladder in family.ladders if (row := _best(ladder))]
    if not best:
        return ""
    ((winner, wins),) = Counter(row.rung for _, row in best).most_common(1)
    won = [(ladder, row) for ladder, row in best if row.rung == winner]
    speedups = sorted(row.speedup_over_eager for _, row in won if row.speedup_over_eager is not None)
    where = "" if len(best) == 1 else f" at {wins} of {several(len(best), 'point')}"
    text = f"{family.heading}: {winner} is the fastest{where}"
    if len(best) == 1 and (step := best[0][1].gross):
        text += f", {seconds(step.mid)} a step"
    if winner != BASELINE and speedups:
        text += f", {_range(speedups)} times as fast as {BASELINE}"
    ties = Counter(row.rung for ladder, first in won for row in ladder.rows if row is not first and _ties(row))
    if equal := sorted(rung for rung, points in ties.items() if points == len(won)):
        text += f"; within the noise, so {'is' if len(equal) == 1 else 'are'} {', '.join(equal)}"
    elif ties:
        text += f", though not beyond the noise everywhere (see {', '.join(sorted(ties))})"
    return f"{text}. {_waiting(family)}".strip()


def _waiting(family: Family) -> str:
    """How much of eager's step is tare."""
    rows = [row for ladder in family.ladders for row in ladder.rows if row.rung == BASELINE]
    shares = sorted(100 * row.tare_share for row in rows if row.tare_share is not None)
    if not shares:
        return ""
    what = "no kernel runs" if family.case.device_type == "cpu" else "the device waits"
    return f"For {_range(shares)} % of {BASELINE}'s step {what}: that is its tare."


def _suite_answer(suite: Suite) -> str:
    mean = suite.speedup
    if mean is None:
        return ""
    over = f"over {mean.n} of {several(mean.m, 'workload')}"
    spread = f"geometric mean; {mean.low:.2g} to {mean.high:.2g} times"
    return f"{suite.heading}: {mean.value:.3g} times as fast {over} ({spread})."


def _best(ladder: Ladder) -> Row | None:
    compared = [row for row in ladder.rows if row.speed_of_best is not None]
    # One rung alone is the fastest of nothing.
    return next((row for row in compared if row.speed_of_best == 1), None) if len(compared) > 1 else None


def _ties(row: Row) -> bool:
    return row.speed_of_best is not None and 1 - row.speed_of_best <= (row.best_noise or 0.0)


def _range(ordered: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{value:.0f}" if value >= 100 else f"{value:.2g}" for value in (ordered[0], ordered[-1]))
    return " to ".join(ends)
