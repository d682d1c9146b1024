"""Estimated savings of the zoo's findings beside what the remedies saved, on an H200.

python scripts/tables/savings.py        writes the tables of docs/zoo-savings.md; a test compares
python scripts/tables/savings.py RULE   prints the workloads of which the published breakdown has such a finding

The measured saving is that of the step with the remedy against the step that was explained.
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
from tare.report.formats.markdown import table
from tare.report.numbers import percent, seconds

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "zoo-savings.md"
ZOO = ROOT / "results" / "zoo"
EXPLAINED, MEASURED = (ZOO / f"h200-{name}.json.gz" for name in ("explained-infer", "infer"))
# Graphs, and TF32 as the eager half of eager against compile.
REMEDIED = [ZOO / f"h200-{name}.json.gz" for name in ("remedies", "compile")]
MARK = "<!-- what follows is written by scripts/tables/savings.py -->\n"
# The rung and the precision with which a finding's advice is followed.
REMEDIES = {"launch-bound": ("cudagraph", "fp32"), "tf32-off": ("eager", "tf32")}
PLAIN = ("eager", "fp32")
# A device that waits for less than this share of the step is what the step waits for.
LITTLE_IDLE = 0.05


class Saving(NamedTuple):
    """Shares of the step, and the step in seconds."""

    rule: str
    workload: str
    step_s: float
    estimated: float
    measured: float
    bound: str

    @property
    def holds(self) -> bool:
        """Within a factor of two; a bound may be wrong on the side that it leaves open."""
        low = self.measured / 2 if self.bound != "at least" else 0.0
        high = self.measured * 2 if self.bound != "at most" else 1.0
        return low <= self.estimated <= high


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
    return runpy.run_path(str(Path(__file__).with_name("breakdown.py")))["read"](EXPLAINED)


def promises() -> dict[str, dict[str, Any]]:
    """The findings of the published breakdown, by rule and workload."""
    kept = breakdown()
    found: dict[str, dict[str, Any]] = {}
    for one in kept.explanations:
        for finding in kept.findings.get(one.case or "", []):
            found.setdefault(finding.rule, {})[one.workload or ""] = finding
    return found


def savings(promised: dict[str, dict[str, Any]], better: list[Record], before: list[Record]) -> list[Saving]:
    plain, after = steps(before), steps(better)
    found = []
    for rule, (rung, precision) in REMEDIES.items():
        for workload, finding in promised.get(rule, {}).items():
            step = plain.get((workload, *PLAIN))
            remedied_step = after.get((workload, rung, precision))
            if step and remedied_step and finding.saving_share:
                share = 1 - remedied_step / step
                found.append(Saving(rule, workload, step, finding.saving_share, share, finding.bound))
    return found


def held_up_by_the_device() -> set[str]:
    return {
        one.workload
        for one in breakdown().explanations
        if one.idle and one.breakdown and one.idle.idle <= LITTLE_IDLE * one.breakdown.window
    }


def summary(promised: dict[str, dict[str, Any]], found: list[Saving], busy: set[str]) -> str:
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
                kept = f"{sum(one.holds for one in mine)} of {len(mine)}"
                middle = [
                    percent(median(getattr(one, what) for one in mine)) for what in ("estimated", "measured")
                ]
                rows.append((rule + which, f"{rung}, {precision}", f"{len(mine)} of {len(chosen)}", *middle, kept))
    heads = ("finding", "remedy", "workloads", "estimated (median)", "measured (median)", "within a factor of two")
    return table(heads, rows, heads[:2])


def details(found: list[Saving]) -> str:
    rows = [
        (one.rule, one.workload, seconds(one.step_s), f"{one.bound} {percent(one.estimated)}".strip(),
         percent(one.measured), "" if one.holds else "no")
        for one in sorted(found, key=lambda one: (one.rule, one.workload.lower()))
    ]  # fmt: skip
    return table(
        ("finding", "workload", "gross", "estimated", "measured", "holds"), rows, ("finding", "workload", "holds")
    )


def remedied(paths: list[Path]) -> list[Record]:
    """What was measured so far with the remedies."""
    return [one for path in paths if path.exists() for one in read_records(path)]


def page() -> str:
    promised = promises()
    found = savings(promised, remedied(REMEDIED), read_records(MEASURED))
    tables = f"\n{summary(promised, found, held_up_by_the_device())}\n{details(found)}"
    return PAGE.read_text().partition(MARK)[0] + MARK + tables


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print("".join(f"{name}\n" for name in promises().get(sys.argv[1], {})), end="")
    else:
        PAGE.write_text(page())
