"""Curves of losses as a table: where each rung starts and ends, the step at which it is furthest off for what is
allowed there, and how many steps could be decided at all."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.execute.tasks import Curve
from tare.report.table import Cell, FittingTable
from tare.report.terminal import PARITY, STYLE, title


def curves_view(curves: list[Curve], data: str, steps: int) -> RenderableType:
    """One table a case; the cases of a proof differ in the rung, and perhaps in more."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.case.ladder, []).append(curve)
    return Group(*(_view(group, data, steps) for group in groups.values()))


def _view(curves: list[Curve], data: str, steps: int) -> RenderableType:
    heads = ("rung", "first loss", "last loss", "deviation", "at step", "allowed", "decided", "parity")
    rows: list[list[Cell]] = [
        [*_cells(curve), Text(PARITY[curve.parity.status], style=STYLE[curve.parity.status])]
        for curve in curves
        if not curve.failure
    ]
    table = FittingTable(heads, rows, right=heads[1:-1], folds={"rung": 0}, spare=("first loss", "at step"))
    head = f"{steps} training steps on {data}, every loss against eager in float64"
    parts: list[RenderableType] = [Text(title(curves[0].case), style="bold"), Text(head, style="dim"), table]
    if any(curve.parity.undecided for curve in curves):
        note = "  from some step on eager itself is rounding noise beside float64: those steps decide nothing"
        parts.append(Text(note, style="yellow"))
    parts += [
        Text(f"  {curve.case.rung} failed: {curve.failure.cause}, {curve.failure.message}", style="red")
        for curve in curves
        if curve.failure
    ]
    parts += [
        Text(f"  {curve.case.rung}: {curve.parity.reason}", style="yellow")
        for curve in curves
        if curve.parity.reason and not curve.failure
    ]
    return Group(*parts)


def _cells(curve: Curve) -> list[str]:
    parity = curve.parity
    ends = [f"{loss:.4g}" for loss in (curve.losses[0], curve.losses[-1])] if curve.losses else ["-", "-"]
    decided = f"{parity.compared} of {len(curve.reference)}"
    if parity.error is None or parity.worst is None:
        return [curve.case.rung, *ends, "-", "-", "-", decided]
    step = parity.worst.partition("/")[2]
    return [curve.case.rung, *ends, f"{parity.error:.1e}", step, f"{parity.tolerance:.1e}", decided]
