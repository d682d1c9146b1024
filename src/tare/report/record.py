"""One record in full: its rounds, memory, telemetry and environment."""

from collections.abc import Sequence

from tare.records.figures import round_median
from tare.records.record import Record, Round
from tare.report.ladder import ladder_view, make_ladders
from tare.report.numbers import duration, seconds, size
from tare.report.view import FittingTable, View

# States of the project, and tags, that are named under several records.
MOST_LISTED = 5
# What goes first where the terminal is narrow.
SPARE = ("energy", "cache", "stopped by", "blocks", "prepare", "latency")


def record_view(record: Record, columns: Sequence[str] = ()) -> View:
    heads = View().add("faint", f"record {record.id} of run {record.run}, {record.created}", record.case.key)
    rounds = View().put(FittingTable([_round(done) for done in record.rounds], folds={"round": 0}, spare=SPARE))
    environment = record.environment
    facts = {**_meters(record), **environment.machine, **environment.software, **environment.flags}
    facts |= environment.circumstances | _provenance(record)
    return ladder_view(make_ladders([record])[0], columns).show(heads, rounds, View().facts(facts))


def provenance_view(records: Sequence[Record]) -> View:
    """A line with the states of the user's project that records belong to, and one with their tags."""
    view = View()
    projects = dict.fromkeys(str(record.project) for record in records if record.project)
    tags = dict.fromkeys(f"{name}={value}" for record in records for name, value in record.tags.items())
    for head, texts in (("project", list(projects)), ("tags", list(tags))):
        more = f" and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else ""
        view.add("faint", f"{head}: {', '.join(texts[:MOST_LISTED])}{more}" if texts else "")
    return view


def _provenance(record: Record) -> dict[str, str]:
    """What was measured, as far as the user's project, the packages and the user's own words tell."""
    project, facts = record.project, {}
    if project:
        state = {True: "with changes", False: "without changes", None: "changes not known"}[project.dirty]
        facts["project"] = f"{project.commit}{f' on {project.branch}' if project.branch else ''}, {state}"
    facts["tags"] = ", ".join(f"{name}={value}" for name, value in record.tags.items())
    facts["packages"] = ", ".join(f"{name} {version}" for name, version in record.environment.packages.items())
    return facts


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
    compared = f"{parity.compared} tensors against {parity.reference}" if parity.compared else parity.reason
    facts = {"parity": f"{parity.status}, {compared}" if compared else parity.status}
    if parity.error is not None:
        facts["worst tensor"] = f"{parity.worst} off by {parity.error:.2g} (tolerance {parity.tolerance or 0:.2g})"
    last = next((r for r in reversed(record.rounds) if r.host_memory), None)
    if last is None or last.host_memory is None:
        return facts
    facts["host memory"] = (
        f"{size(last.host_memory.peak)} stepping, {size(last.host_memory.prepare_peak)} preparing"
    )
    if {"user_us", "system_us"} <= last.counts.keys():
        user, system = (seconds(last.counts[name] / 1e6) for name in ("user_us", "system_us"))
        facts["CPU time of a run"] = f"{user} user, {system} system"
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
