"""The peaks of a machine for the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.measure.peaks import SECONDS, benchmarks
from tare.records.work import Peaks
from tare.report.numbers import seconds
from tare.report.table import FittingTable

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def peaks_view(measured: Peaks) -> RenderableType:
    machine, software = measured.environment.machine, measured.environment.software
    chip = machine.get("gpu", "?") if measured.device.startswith("cuda") else machine.get("cpu", "?")
    meaning = {benchmark.name: benchmark.meaning for benchmark in benchmarks(measured.device)}
    rows = []
    for peak in measured.peaks:
        best, worst = max(peak.rounds), min(peak.rounds)
        apart = f"{100 * (best - worst) / best:.1f} % apart" if len(peak.rounds) > 1 else "1 round"
        rows.append((peak.name, rate(peak.value, peak.unit), apart, meaning.get(peak.name, "")))
    heads = ("peak", "best", "over rounds", "what")
    spare, folds = ("over rounds",), {"peak": 0, "what": 16}
    table = FittingTable(heads, rows, right=heads[1:3], folds=folds, spare=spare)
    threads = f", {measured.threads} threads" if measured.threads else ""
    title = Text(f"{measured.device}: {chip}{threads}, torch {software.get('torch', '?')}", style="bold")
    caveats = [Text(f"  note: not kept: {caveat}", style="yellow") for caveat in measured.caveats]
    return Group(title, table, *caveats)


def rate(value: float, unit: str) -> str:
    if unit == SECONDS:
        return seconds(value)
    scale, prefix = next((unit for unit in PREFIXES if value >= unit[0]), PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"
