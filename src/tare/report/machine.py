"""What a machine has and can do: the doctor's findings, and measured peaks."""

from tare.measure.health import Check
from tare.measure.peaks import SECONDS, benchmarks
from tare.protocol.messages import Probed
from tare.records.work import Peak, Peaks
from tare.report.lists import describe_rungs, list_view
from tare.report.numbers import prefixed, seconds
from tare.report.view import FittingTable, View


def health_view(probed: Probed, checks: list[Check]) -> View:
    environment = probed.environment
    facts = {"devices": ", ".join(probed.devices), **environment.machine, **environment.software}
    rows = [{"noise": check.name, "state": check.state, "seen": check.seen} for check in checks]
    noise = View().put(FittingTable(rows, words=("state",), folds={"noise": 0, "seen": 0}))
    noise.add("warning", *(f"{c.name}: {c.remedy}" for c in checks if c.state == "warn" and c.remedy))
    rungs = list_view(describe_rungs(probed), ("rung", "summary", "available"))
    return View().facts(facts).show(rungs, noise)


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
