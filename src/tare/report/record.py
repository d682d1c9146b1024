"""One record in full: its rounds, memory, telemetry and environment."""

from tare.records.figures import round_median
from tare.records.record import Record, Round
from tare.report.ladder import ladder_view, make_ladders
from tare.report.numbers import duration, seconds, size
from tare.report.view import FittingTable, View

# What goes first where the terminal is narrow.
SPARE = ("energy", "cache", "stopped by", "blocks", "prepare", "latency")


def record_view(record: Record) -> View:
    heads = View().add("faint", f"record {record.id} of run {record.run}, {record.created}", record.case.key)
    rounds = View().put(FittingTable([_round(done) for done in record.rounds], folds={"round": 0}, spare=SPARE))
    environment = record.environment
    facts = {**_meters(record), **environment.machine, **environment.software, **environment.flags}
    facts |= environment.circumstances
    return ladder_view(make_ladders([record])[0]).show(heads, rounds, View().facts(facts))


def _round(done: Round) -> dict[str, str]:
    pipelined, latency = round_median(done, "pipelined"), round_median(done, "latency")
    series = done.find("pipelined")
    energy = done.telemetry.energy_j_per_step if done.telemetry else None
    return {
        "round": str(done.index + 1) if done.failure is None else f"{done.index + 1} {done.failure.cause}",
        "pipelined": duration(pipelined) if pipelined else "-",
        "latency": duration(latency) if latency else "-",
        "blocks": f"{len(series.wall_ns)} of {max(series.steps)}" if series and series.steps else "-",
        "stopped by": series.stop if series else "-",
        "prepare": seconds(done.prepare_s),
        "cache": done.cache,
        "energy": f"{energy:.3g} J" if energy is not None else "-",
    }


def _meters(record: Record) -> dict[str, str]:
    parity = record.parity
    facts = {"parity": f"{parity.status}, {parity.compared} tensors against {parity.reference or 'nothing'}"}
    if parity.error is not None:
        facts["worst tensor"] = f"{parity.worst} off by {parity.error:.2g} (tolerance {parity.tolerance or 0:.2g})"
    last = next((r for r in reversed(record.rounds) if r.host_memory), None)
    if last is None or last.host_memory is None:
        return facts
    facts["host memory"] = (
        f"{size(last.host_memory.peak)} stepping, {size(last.host_memory.prepare_peak)} preparing"
    )
    if memory := last.device_memory:
        facts["device memory"] = (
            f"{size(memory.allocated_peak)} allocated, {size(memory.reserved_peak)} reserved, "
            f"{size(memory.nvml)} by NVML ({memory.nvml_method})"
        )
    if seen := last.telemetry:
        spreads = {"SM clock, MHz": seen.sm_clock_mhz, "temperature, °C": seen.temperature_c,
                   "power, W": seen.power_w, "utilisation": seen.utilisation}  # fmt: skip
        facts |= {name: " .. ".join(f"{v:g}" for v in spread) for name, spread in spreads.items() if spread}
        facts["throttled by"] = ", ".join(seen.throttle_reasons)
    return facts
