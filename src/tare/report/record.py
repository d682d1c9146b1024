"""One record in full: its rounds, memory, telemetry and environment."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.records.environment import Environment
from tare.records.figures import round_median
from tare.records.record import Record, Round
from tare.report.ladder import make_ladders
from tare.report.numbers import duration, seconds, size
from tare.report.table import FittingTable, simple_table
from tare.report.terminal import ladder_view

# What goes first where the terminal is narrow.
SPARE = ("energy", "cache", "stopped by", "blocks", "prepare", "latency")


def record_view(record: Record) -> RenderableType:
    ladder = ladder_view(make_ladders([record])[0])
    heads = Text(f"record {record.id} of run {record.run}, {record.created}\n{record.case.key}", style="dim")
    return Group(ladder, Text(""), heads, Text(""), _rounds(record.rounds), Text(""), _facts(record))


def _rounds(rounds: list[Round]) -> RenderableType:
    heads = ("round", "pipelined", "latency", "blocks", "stopped by", "prepare", "cache", "energy")
    rows = []
    for done in rounds:
        pipelined, latency = round_median(done, "pipelined"), round_median(done, "latency")
        series = done.find("pipelined")
        energy = done.telemetry.energy_j_per_step if done.telemetry else None
        row = (
            str(done.index + 1) if done.failure is None else f"{done.index + 1} {done.failure.cause}",
            duration(pipelined) if pipelined else "-",
            duration(latency) if latency else "-",
            f"{len(series.wall_ns)} of {max(series.steps)}" if series and series.steps else "-",
            series.stop if series else "-",
            seconds(done.prepare_s),
            done.cache,
            f"{energy:.3g} J" if energy is not None else "-",
        )
        rows.append(row)
    return FittingTable(heads, rows, right=heads[1:], folds={"round": 0}, spare=SPARE)


def _facts(record: Record) -> RenderableType:
    table = simple_table("", "")
    table.show_header = False
    # A long fact goes on in a second line: nothing is cut.
    table.columns[1].no_wrap, table.columns[1].overflow = False, "fold"
    for name, value in {**_meters(record), **_environment(record.environment)}.items():
        table.add_row(name, value)
    return table


def _meters(record: Record) -> dict[str, str]:
    facts: dict[str, str] = {}
    parity = record.parity
    facts["parity"] = f"{parity.status}, {parity.compared} tensors against {parity.reference or 'nothing'}"
    if parity.error is not None:
        facts["worst tensor"] = f"{parity.worst} off by {parity.error:.2g} (tolerance {parity.tolerance or 0:.2g})"
    last = next((r for r in reversed(record.rounds) if r.host_memory), None)
    if last is None or last.host_memory is None:
        return facts
    facts["host memory"] = (
        f"{size(last.host_memory.peak)} stepping, {size(last.host_memory.prepare_peak)} preparing"
    )
    if last.device_memory:
        memory = last.device_memory
        facts["device memory"] = (
            f"{size(memory.allocated_peak)} allocated, {size(memory.reserved_peak)} reserved, "
            f"{size(memory.nvml)} by NVML ({memory.nvml_method})"
        )
    seen = last.telemetry
    if seen:
        spreads = {"SM clock, MHz": seen.sm_clock_mhz, "temperature, °C": seen.temperature_c,
                   "power, W": seen.power_w, "utilisation": seen.utilisation}  # fmt: skip
        facts |= {name: " .. ".join(f"{v:g}" for v in spread) for name, spread in spreads.items() if spread}
        if seen.throttle_reasons:
            facts["throttled by"] = ", ".join(seen.throttle_reasons)
    return facts


def _environment(environment: Environment) -> dict[str, str]:
    return {**environment.machine, **environment.software, **environment.flags, **environment.circumstances}
