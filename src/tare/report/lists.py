"""Workloads, rungs, findings and records as entries (for JSON) and as tables (for people)."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tare.cases.case import Case
from tare.cases.plan import open_names
from tare.errors import unknown
from tare.findings.registry import all_rules, get_rule
from tare.protocol.messages import Absent, Probed
from tare.records.figures import gross
from tare.records.record import Record
from tare.report.numbers import duration
from tare.report.table import FittingTable
from tare.rungs import Rung, all_rungs
from tare.rungs.registry import left_out
from tare.workloads import all_workloads, get_workload
from tare.workloads.base import DOMAINS
from tare.workloads.groups import all_groups

# Columns that may be folded, and how wide they stay; those that go first where the terminal is narrow.
FOLDED = {"workload": 0, "rung": 0, "finding": 0, "name": 0, "group": 0} | dict.fromkeys(
    ("case", "available", "sizes", "summary", "sees", "remedy", "task", "workloads"), 16
)
SPARE = ("created", "sizes", "task", "remedy", "batch")
# So many members of a group are named in a table; `tare list workloads @GROUP` has all.
SHOWN = 6
# A workload that every rung knows.
PLAIN = "resnet50"


def describe_workloads(terms: Sequence[str] = (), domain: str | None = None) -> list[dict[str, Any]]:
    """Those named by `terms` (names and groups; all of them, if none are), of one domain if that is given."""
    groups = all_groups()
    known = all_workloads()
    if domain is not None and domain not in DOMAINS:
        raise unknown("domain", domain, DOMAINS)
    entries = []
    for name in open_names(terms or known, groups):
        workload = get_workload(name)
        if domain not in (None, workload.domain):
            continue
        remedy = workload.remedy()
        entries.append(
            {
                "workload": name,
                "domain": workload.domain,
                "task": workload.task,
                "batch": workload.batch,
                "sizes": workload.defaults,
                "smoke": {"batch": workload.smoke_batch, **workload.smoke_sizes},
                "groups": [f"@{group}" for group, names in groups.items() if name in names],
                "trains": workload.trains,
                "source": workload.source,
                "differs": workload.differs,
                "available": f"no: {remedy}" if remedy else "yes",
            }
        )
    return entries


def describe_groups(terms: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Those named, with or without the sign; all of them, if none are."""
    groups = all_groups()
    entries = []
    for term in terms or groups:
        name = term.removeprefix("@")
        if name not in groups:
            raise unknown("group", term, [f"@{group}" for group in groups])
        entries.append({"group": f"@{name}", "size": len(groups[name]), "workloads": groups[name]})
    return entries


def describe_rungs(probed: Probed) -> list[dict[str, Any]]:
    """A rung is available where one of the devices here can run it."""
    entries = []
    for base, rung in all_rungs().items():
        for variant in ("", *rung.variants):
            name = f"{base}:{variant}" if variant else base
            reasons = {device: _why_not(probed, rung, name, device) for device in probed.devices}
            here = [device for device, why in reasons.items() if why is None]
            why = next((why for why in reasons.values() if why), None)
            entries.append(
                {
                    "rung": name,
                    "summary": rung.variants.get(variant, rung.summary),
                    "available": f"on {', '.join(here)}" if here else "no",
                    "reason": why.reason if why and not here else None,
                    "remedy": why.remedy if why and not here else None,
                    "left_out_of_ladders": left_out(name),
                }
            )
    return entries


def _why_not(probed: Probed, rung: Rung, name: str, device: str) -> Absent | None:
    """Why a device cannot run a variant: what is missing, or what the rung says of a plain inference case."""
    missing = probed.absent[device].get(rung.name)
    if missing:
        return missing
    reason = rung.supports(Case(workload=PLAIN, rung=name, device=device, batch=1), get_workload(PLAIN))
    return Absent(reason=reason, remedy="run on a machine that has one") if reason else None


def describe_findings(names: Sequence[str]) -> list[dict[str, Any]]:
    """The rules that `tare explain` looks by; all of them, if none are named."""
    return [
        {"finding": rule.id, "sees": rule.sees, "remedy": rule.remedy, "compares_two_traces": rule.pair}
        for rule in (get_rule(name) for name in names or all_rules())
    ]


def describe_record(record: Record) -> dict[str, Any]:
    step = gross(record)
    return {
        "id": record.id,
        "run": record.run,
        "created": record.created,
        "case": record.case.key,
        "gross": duration(step) if step else "-",
        "gross_s": step.mid if step else None,
        "status": record.failure.cause if record.failure else record.parity.status,
    }


def list_view(entries: list[dict[str, Any]], heads: tuple[str, ...]) -> RenderableType:
    if not entries:
        return Text("none")
    rows = [[_cell(entry, head) for head in heads] for entry in entries]
    return _with_reasons(FittingTable(heads, rows, folds=FOLDED, spare=SPARE, paddings=(2,)), entries)


def _cell(entry: dict[str, Any], head: str) -> str:
    value = entry[head]
    if isinstance(value, tuple):
        return ", ".join(value[:SHOWN]) + (f", and {len(value) - SHOWN} more" if len(value) > SHOWN else "")
    if head == "created":
        return str(value)[:16].replace("T", " ")
    if isinstance(value, dict):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return str(value)


def _with_reasons(table: RenderableType, entries: list[dict[str, Any]]) -> RenderableType:
    from rich.console import Group

    lines: list[RenderableType] = [table]
    for entry in entries:
        if entry.get("reason"):
            lines.append(
                Text(f"  {entry['rung']} is not available: {entry['reason']}; {entry['remedy']}", "yellow")
            )
        if entry.get("left_out_of_ladders"):
            lines.append(Text(f"  {entry['rung']} is in no default ladder: {entry['left_out_of_ladders']}", "dim"))
    return Group(*lines)
