"""A calibration for the terminal."""

from collections.abc import Sequence

from tare.guard.calibrate import ROUNDS, CaseNoise
from tare.records.record import Record
from tare.report.numbers import value
from tare.report.overview import failure_lines
from tare.report.view import FittingTable, View

LEGEND = (
    "noise: between processes; sees: the change found 95 % of the time with that many rounds a side;",
    "for threshold: rounds that find a change as large as the threshold; cost: their time, both sides",
)
SPARE = (*(f"sees in {rounds}" for rounds in ROUNDS), "A/A", "cost")


def noise_view(noises: Sequence[CaseNoise], records: Sequence[Record] = ()) -> View:
    """`records` are those that were examined: what failed has no noise, and is named with its cause."""
    view = View()
    for case in dict.fromkeys(noise.case for noise in noises):
        rows = [_cells(noise) for noise in noises if noise.case == case]
        view.add("key", case).put(FittingTable(rows, words=("metric",), spare=SPARE))
    return view.add("failure", *failure_lines(records)).add("faint", *(LEGEND if noises else ()))


def _cells(noise: CaseNoise) -> dict[str, str]:
    detectable = {f"sees in {rounds}": noise.detectable[rounds] for rounds in ROUNDS}
    return {
        "metric": noise.metric,
        "typical": value(noise.typical, noise.unit),
        "noise": f"{noise.noise:.2%}",
        **{head: f"{change:.1%}" if change is not None else "-" for head, change in detectable.items()},
        "for threshold": str(noise.rounds_for_threshold or "over 1000"),
        "cost": f"{noise.seconds_for_threshold:.0f} s" if noise.seconds_for_threshold else "-",
        "A/A": noise.aa_verdict,
    }
