"""Curves of losses as a table: first and last loss of each rung, its largest deviation for what is allowed at that
step, and how many steps decide anything."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.execute.curves import Curve
from tare.report.table import Cell, FittingTable
from tare.report.terminal import PARITY, STYLE, title

HEADS = ("rung", "first loss", "last loss", "deviation", "at step", "allowed", "decided", "parity")


def curves_view(curves: list[Curve], data: str, steps: int) -> RenderableType:
    """One table per ladder."""
    ladders: dict[str, list[Curve]] = {}
    for curve in curves:
        ladders.setdefault(curve.case.ladder, []).append(curve)
    return Group(*(_ladder_view(ladder, data, steps) for ladder in ladders.values()))


def _ladder_view(curves: list[Curve], data: str, steps: int) -> RenderableType:
    rows: list[list[Cell]] = [
        [*_cells(curve), Text(PARITY[curve.parity.status], style=STYLE[curve.parity.status])]
        for curve in curves
        if not curve.failure
    ]
    head = f"{steps} training steps on {data}, every loss against eager in float64"
    parts: list[RenderableType] = [
        Text(title(curves[0].case), style="bold"),
        Text(head, style="dim"),
        FittingTable(HEADS, rows, right=HEADS[1:-1], folds={"rung": 0}, spare=("first loss", "at step")),
    ]
    if any(curve.parity.undecided for curve in curves):
        note = "  from some step on eager itself is rounding noise beside float64: those steps decide nothing"
        parts.append(Text(note, style="yellow"))
    for curve in curves:
        if curve.failure:
            text = f"  {curve.case.rung} failed: {curve.failure.cause}, {curve.failure.message}"
            parts.append(Text(text, style="red"))
        elif curve.parity.reason:
            parts.append(Text(f"  {curve.case.rung}: {curve.parity.reason}", style="yellow"))
    return Group(*parts)


def _cells(curve: Curve) -> list[str]:
    parity = curve.parity
    ends = [f"{loss:.4g}" for loss in (curve.losses[0], curve.losses[-1])] if curve.losses else ["-", "-"]
    decided = f"{parity.compared} of {len(curve.reference)}"
    if parity.error is None or parity.worst is None:
        return [curve.case.rung, *ends, "-", "-", "-", decided]
    step = parity.worst.partition("/")[2]
    return [curve.case.rung, *ends, f"{parity.error:.1e}", step, f"{parity.tolerance:.1e}", decided]
