"""A machine's peaks for the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.measure.peaks import SECONDS, ceilings
from tare.records.work import Peaks
from tare.report.numbers import seconds
from tare.report.table import FittingTable

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def peaks_view(found: Peaks) -> RenderableType:
    machine, software = found.environment.machine, found.environment.software
    chip = machine.get("gpu", "?") if found.device.startswith("cuda") else machine.get("cpu", "?")
    meaning = {one.name: one.meaning for one in ceilings(found.device)}
    rows = []
    for peak in found.peaks:
        best, worst = max(peak.rounds), min(peak.rounds)
        apart = f"{100 * (best - worst) / best:.1f} % apart" if len(peak.rounds) > 1 else "1 round"
        rows.append((peak.name, rate(peak.value, peak.unit), apart, meaning.get(peak.name, "")))
    heads = ("peak", "best", "over rounds", "what")
    spare, folds = ("over rounds",), {"peak": 0, "what": 16}
    table = FittingTable(heads, rows, right=heads[1:3], folds=folds, spare=spare)
    return Group(Text(f"{found.device}: {chip}, torch {software.get('torch', '?')}", style="bold"), table)


def rate(value: float, unit: str) -> str:
    if unit == SECONDS:
        return seconds(value)
    scale, prefix = next((one for one in PREFIXES if value >= one[0]), PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"
