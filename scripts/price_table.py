"""Whether remedies give back what the zoo's findings promise, on an H200.

python scripts/price_table.py        writes the tables of docs/zoo-prices.md; a test compares
python scripts/price_table.py RULE   prints the workloads of which the published breakdown has such a finding

What a remedy gave back is measured: the step with it against the step that was explained. (Not against one of the
remedies' own day: what waits for the host takes as long as the host of that day makes it.)
"""

import runpy
import sys
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tare.records.codec import read_records
from tare.records.figures import gross
from tare.records.record import Record
from tare.report.explain import percent
from tare.report.formats.markdown import table
from tare.report.numbers import seconds

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "zoo-prices.md"
ZOO = ROOT / "results" / "zoo"
EXPLAINED, MEASURED = (ZOO / f"h200-{name}.json.gz" for name in ("explained-infer", "infer"))
# Graphs, and TF32 as the eager half of eager against compile.
REMEDIED = [ZOO / f"h200-{name}.json.gz" for name in ("remedies", "compile")]
MARK = "<!-- what follows is written by scripts/price_table.py -->\n"
# The rung and the precision with which a finding's advice is followed.
REMEDIES = {"launch-bound": ("cudagraph", "fp32"), "tf32-off": ("eager", "tf32")}
PLAIN = ("eager", "fp32")
# A device that waits for less than this share of the step is what the step waits for.
LITTLE_IDLE = 0.05


class Given(NamedTuple):
    """Shares of the step, and the step in seconds."""

    rule: str
    workload: str
    step_s: float
    priced: float
    given: float
    bound: str

    @property
    def kept(self) -> bool:
        """Within a factor of two; a bound may be wrong on the side that it leaves open."""
        low = self.given / 2 if self.bound != "at least" else 0.0
        high = self.given * 2 if self.bound != "at most" else 1.0
        return low <= self.priced <= high


def steps(records: list[Record]) -> dict[tuple[str, str, str], float]:
    """Gross by workload, rung and precision, of what ran and computes the same."""
    found = {}
    for one in records:
        figure = gross(one)
        if figure is not None and one.parity.status in ("same", "unchecked"):
            found[one.case.workload, one.case.rung, one.case.precision] = figure.mid
    return found


@cache
def breakdown() -> Any:
    return runpy.run_path(str(Path(__file__).with_name("breakdown_table.py")))["read"](EXPLAINED)


def promises() -> dict[str, dict[str, Any]]:
    """The findings of the published breakdown, by rule and workload."""
    kept = breakdown()
    found: dict[str, dict[str, Any]] = {}
    for one in kept.explanations:
        for finding in kept.findings.get(one.case or "", []):
            found.setdefault(finding.rule, {})[one.workload or ""] = finding
    return found


def given(promised: dict[str, dict[str, Any]], better: list[Record], before: list[Record]) -> list[Given]:
    plain, after = steps(before), steps(better)
    found = []
    for rule, (rung, precision) in REMEDIES.items():
        for workload, finding in promised.get(rule, {}).items():
            step = plain.get((workload, *PLAIN))
            remedied_step = after.get((workload, rung, precision))
            if step and remedied_step and finding.gain_share:
                bound = "at most" if finding.at_most else "at least" if finding.at_least else ""
                found.append(Given(rule, workload, step, finding.gain_share, 1 - remedied_step / step, bound))
    return found


def held_up_by_the_device() -> set[str]:
    return {
        one.workload
        for one in breakdown().explanations
        if one.idle and one.breakdown and one.idle.idle <= LITTLE_IDLE * one.breakdown.window
    }


def summary(promised: dict[str, dict[str, Any]], found: list[Given], busy: set[str]) -> str:
    """A line a rule, and one for those of its workloads that the host has no part in."""
    rows = []
    for rule, (rung, precision) in REMEDIES.items():
        named = promised.get(rule, {})
        for which, chosen in (
            ("", set(named)),
            (f", idle for {100 * LITTLE_IDLE:.0f} % at most", set(named) & busy),
        ):
            mine = [one for one in found if one.rule == rule and one.workload in chosen]
            if mine:
                kept = f"{sum(one.kept for one in mine)} of {len(mine)}"
                middle = [percent(median(getattr(one, what) for one in mine)) for what in ("priced", "given")]
                rows.append((rule + which, f"{rung}, {precision}", f"{len(mine)} of {len(chosen)}", *middle, kept))
    heads = ("finding", "remedy", "workloads", "priced (median)", "gave back (median)", "within a factor of two")
    return table(heads, rows, heads[:2])


def details(found: list[Given]) -> str:
    rows = [
        (one.rule, one.workload, seconds(one.step_s), f"{one.bound} {percent(one.priced)}".strip(),
         percent(one.given), "" if one.kept else "no")
        for one in sorted(found, key=lambda one: (one.rule, one.workload.lower()))
    ]  # fmt: skip
    return table(
        ("finding", "workload", "gross", "priced", "gave back", "kept"), rows, ("finding", "workload", "kept")
    )


def remedied(paths: list[Path]) -> list[Record]:
    """What was measured so far with the remedies."""
    return [one for path in paths if path.exists() for one in read_records(path)]


def page() -> str:
    promised = promises()
    found = given(promised, remedied(REMEDIED), read_records(MEASURED))
    tables = f"\n{summary(promised, found, held_up_by_the_device())}\n{details(found)}"
    return PAGE.read_text().partition(MARK)[0] + MARK + tables


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print("".join(f"{name}\n" for name in promises().get(sys.argv[1], {})), end="")
    else:
        PAGE.write_text(page())
