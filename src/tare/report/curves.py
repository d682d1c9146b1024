"""Curves of losses as a table: first and last loss of each rung, its largest deviation for what is allowed at that
step, and how many steps decide anything."""

from tare.execute.curves import Curve
from tare.report.ladder import PARITY, title
from tare.report.view import FittingTable, View

NOISE = "from some step on eager itself is rounding noise beside float64: those steps decide nothing"


def curves_view(curves: list[Curve], data: str, steps: int) -> View:
    """One table per ladder."""
    ladders: dict[str, list[Curve]] = {}
    for curve in curves:
        ladders.setdefault(curve.case.ladder, []).append(curve)
    view = View()
    for ladder in ladders.values():
        view.add("title", title(ladder[0].case))
        view.add("faint", f"{steps} training steps on {data}, every loss against eager in float64")
        rows = [_cells(curve) for curve in ladder if not curve.failure]
        spare = ("first loss", "at step")
        view.put(FittingTable(rows, words=("parity",), folds={"rung": 0}, spare=spare))
        view.add("warning", NOISE if any(curve.parity.undecided for curve in ladder) else "")
        for curve in ladder:
            if curve.failure:
                view.add("failure", f"{curve.case.rung} failed: {curve.failure.cause}, {curve.failure.message}")
            elif curve.parity.reason:
                view.add("warning", f"{curve.case.rung}: {curve.parity.reason}")
    return view


def _cells(curve: Curve) -> dict[str, str]:
    parity = curve.parity
    first, last = (f"{curve.losses[i]:.4g}" if curve.losses else "-" for i in (0, -1))
    is_known = parity.error is not None and parity.worst is not None
    return {
        "rung": curve.case.rung,
        "first loss": first,
        "last loss": last,
        "deviation": f"{parity.error:.1e}" if is_known else "-",
        "at step": (parity.worst or "").partition("/")[2] if is_known else "-",
        "allowed": f"{parity.tolerance:.1e}" if is_known else "-",
        "decided": f"{parity.compared} of {len(curve.reference)}",
        "parity": PARITY[parity.status],
    }
