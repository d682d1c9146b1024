"""A calibration for the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.guard.calibrate import ROUNDS, CaseNoise
from tare.records.record import Record
from tare.report.figures import value
from tare.report.overview import failure_lines
from tare.report.table import FittingTable
from tare.report.terminal import key_text


def noise_view(lines: Sequence[CaseNoise], records: Sequence[Record] = ()) -> RenderableType:
    """`records` are those that were examined: what failed has no noise, and is named with its cause."""
    sees = tuple(f"sees in {n}" for n in ROUNDS)
    heads = ("  metric", "typical", "noise", *sees, "for threshold", "cost", "A/A")
    parts: list[RenderableType] = []
    for case in dict.fromkeys(line.case for line in lines):
        rows = [[f"  {line.metric}", *_cells(line)] for line in lines if line.case == case]
        spare = (*sees, "A/A", "cost")
        parts += [key_text(case, "bold"), FittingTable(heads, rows, right=heads[1:], spare=spare, paddings=(1,))]
    parts += [Text(line, style="red") for line in failure_lines(records)]
    if not lines:
        return Group(*parts)
    parts.append(
        Text(
            "noise: between processes; sees: the change found 95 % of the time with that many rounds a side;\n"
            "for threshold: rounds that find a change as large as the threshold; cost: their time, both sides",
            style="dim",
        )
    )
    return Group(*parts)


def _cells(line: CaseNoise) -> list[str]:
    found = [line.detectable[n] for n in ROUNDS]
    return [
        value(line.typical, line.unit),
        f"{line.noise:.2%}",
        *(f"{change:.1%}" if change is not None else "-" for change in found),
        str(line.rounds_for_threshold or "over 1000"),
        f"{line.seconds_for_threshold:.0f} s" if line.seconds_for_threshold else "-",
        line.aa_verdict,
    ]
