"""The peaks of a machine for the terminal."""

from tare.measure.peaks import SECONDS, benchmarks
from tare.records.work import Peak, Peaks
from tare.report.numbers import prefixed, seconds
from tare.report.view import FittingTable, View


def peaks_view(measured: Peaks) -> View:
    machine, software = measured.environment.machine, measured.environment.software
    chip = machine.get("gpu", "?") if measured.device.startswith("cuda") else machine.get("cpu", "?")
    threads = f", {measured.threads} threads" if measured.threads else ""
    meanings = {benchmark.name: benchmark.meaning for benchmark in benchmarks(measured.device)}
    rows = [_cells(peak, meanings.get(peak.name, "")) for peak in measured.peaks]
    view = View(f"{measured.device}: {chip}{threads}, torch {software.get('torch', '?')}")
    view.put(FittingTable(rows, folds={"peak": 0, "what": 16}, spare=("over rounds",)))
    return view.add("note", *(f"not kept: {caveat}" for caveat in measured.caveats))


def _cells(peak: Peak, meaning: str) -> dict[str, str]:
    best, worst = max(peak.rounds), min(peak.rounds)
    return {
        "peak": peak.name,
        "best": seconds(peak.value) if peak.unit == SECONDS else prefixed(peak.value, peak.unit),
        "over rounds": f"{100 * (best - worst) / best:.1f} % apart" if len(peak.rounds) > 1 else "1 round",
        "what": meaning,
    }
