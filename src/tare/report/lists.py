"""What there is: workloads, groups, rungs, findings, formats and records, as entries for JSON and as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tare.cases.case import Case
from tare.cases.plan import open_names
from tare.errors import unknown
from tare.findings.finding import all_rules, get_rule
from tare.measure.work import is_heavy
from tare.protocol.messages import Flops, Inspected, Missing, Probed
from tare.records.figures import gross
from tare.records.record import Failure, Record
from tare.report.formats import all_formats
from tare.report.numbers import duration, size
from tare.report.table import FittingTable, fact_table
from tare.rungs import Rung, all_rungs
from tare.rungs.registry import excluded_by_default
from tare.workloads import Workload, all_workloads, get_workload
from tare.workloads.base import DOMAINS
from tare.workloads.groups import all_groups

Entry = dict[str, Any]

# Columns that may be folded, with the width they keep, and those dropped first on a narrow terminal.
FOLDED = {"workload": 0, "rung": 0, "finding": 0, "name": 0, "group": 0} | dict.fromkeys(
    ("case", "available", "sizes", "summary", "sees", "remedy", "task", "workloads"), 16
)
SPARE = ("created", "sizes", "task", "remedy", "batch")
# So many members of a group are named in a table; `tare list workloads @GROUP` has all.
SHOWN_MEMBERS = 6
SHOWN_OPERATORS = 6
# A workload that every rung knows.
PLAIN = "resnet50"


def describe_workloads(terms: Sequence[str] = (), domain: str | None = None) -> list[Entry]:
    """Those named by `terms` (names and groups; all of them, if none are), of one domain if that is given."""
    groups, known = all_groups(), all_workloads()
    if domain is not None and domain not in DOMAINS:
        raise unknown("domain", domain, DOMAINS)
    workloads = [get_workload(name) for name in open_names(terms or known, groups)]
    return [_workload(each, groups) for each in workloads if domain in (None, each.domain)]


def _workload(workload: Workload, groups: Mapping[str, Sequence[str]]) -> Entry:
    remedy = workload.remedy()
    return {
        "workload": workload.name,
        "domain": workload.domain,
        "task": workload.task,
        "batch": workload.batch,
        "sizes": workload.defaults,
        "smoke": {"batch": workload.smoke_batch, **workload.smoke_sizes},
        "groups": [f"@{group}" for group, names in groups.items() if workload.name in names],
        "trains": workload.trains,
        "source": workload.source,
        "differs": workload.differs,
        "available": f"no: {remedy}" if remedy else "yes",
    }


def describe_workload(
    workload: Workload, groups: Mapping[str, Sequence[str]], inspected: Inspected | Failure | None
) -> Entry:
    """All that is known of one workload; `inspected` holds its parameters and FLOPs, or why it was not built."""
    failed = isinstance(inspected, Failure)
    return _workload(workload, groups) | {
        "counterpart": list(workload.counterpart),
        "requires": list(workload.requires),
        "remedy": workload.remedy(),
        "trains": workload.refusal({"train", "fp32", "cpu", "eager"}) is None,
        "optimizer": workload.optimizer,
        "layouts": list(workload.layouts),
        "unsupported": dict(workload.unsupported),
        "inspected": None if failed else inspected,
        "failure": f"{inspected.cause}: {inspected.message}" if isinstance(inspected, Failure) else None,
    }


def describe_groups(terms: Sequence[str] = ()) -> list[Entry]:
    """Those named, with or without the @; all of them, if none are."""
    groups = all_groups()
    entries = []
    for term in terms or groups:
        name = term.removeprefix("@")
        if name not in groups:
            raise unknown("group", term, [f"@{group}" for group in groups])
        entries.append({"group": f"@{name}", "size": len(groups[name]), "workloads": groups[name]})
    return entries


def describe_rungs(probed: Probed) -> list[Entry]:
    """A rung is available where one of the devices here can run it."""
    entries = []
    for base, rung in all_rungs().items():
        for variant in ("", *rung.variants):
            name = f"{base}:{variant}" if variant else base
            reasons = {device: _why_not(probed, rung, name, device) for device in probed.devices}
            here = [device for device, reason in reasons.items() if reason is None]
            absent = None if here else next((reason for reason in reasons.values() if reason), None)
            entries.append(
                {
                    "rung": name,
                    "summary": rung.variants.get(variant, rung.summary),
                    "available": f"on {', '.join(here)}" if here else "no",
                    "reason": absent and absent.reason,
                    "remedy": absent and absent.remedy,
                    "skipped_by_default": excluded_by_default(name),
                }
            )
    return entries


def _why_not(probed: Probed, rung: Rung, name: str, device: str) -> Missing | None:
    """Why a device cannot run a variant: what is missing, or what the rung says of a plain inference case."""
    missing = probed.absent[device].get(rung.name)
    if missing:
        return missing
    reason = rung.supports(Case(workload=PLAIN, rung=name, device=device, batch=1), get_workload(PLAIN))
    return Missing(reason=reason, remedy="run on a machine that has one") if reason else None


def describe_findings(names: Sequence[str]) -> list[Entry]:
    """The rules that `tare explain` applies; all of them, if none are named."""
    return [
        {"finding": rule.id, "sees": rule.sees, "remedy": rule.remedy, "compares_two_traces": rule.pair}
        for rule in (get_rule(name) for name in names or all_rules())
    ]


def describe_formats(names: Sequence[str]) -> list[Entry]:
    """What `tare export` writes of records, and what `tare compare` and `tare check` write of comparisons."""
    known = all_formats()
    for name in names:
        if name not in {each.name for each in known}:
            raise unknown("format", name, {each.name for each in known})
    return [
        {"format": each.name, "of": each.takes, "summary": each.summary}
        for each in known
        if not names or each.name in names
    ]


def describe_record(record: Record) -> Entry:
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


def list_view(entries: list[Entry], heads: tuple[str, ...]) -> RenderableType:
    if not entries:
        return Text("none")
    rows = [[_cell(entry, head) for head in heads] for entry in entries]
    parts: list[RenderableType] = [FittingTable(heads, rows, folds=FOLDED, spare=SPARE, paddings=(2,))]
    for entry in entries:
        if entry.get("reason"):
            why = f"{entry['reason']}; {entry['remedy']}"
            parts.append(Text(f"  {entry['rung']} is not available: {why}", "yellow"))
        if entry.get("skipped_by_default"):
            parts.append(Text(f"  {entry['rung']} is in no default ladder: {entry['skipped_by_default']}", "dim"))
    return Group(*parts)


def _cell(entry: Entry, head: str) -> str:
    value = entry[head]
    if isinstance(value, tuple):
        more = f", and {len(value) - SHOWN_MEMBERS} more" if len(value) > SHOWN_MEMBERS else ""
        return ", ".join(value[:SHOWN_MEMBERS]) + more
    if head == "created":
        return str(value)[:16].replace("T", " ")
    return _sizes(value) if isinstance(value, dict) else str(value)


def workload_view(entry: Entry) -> RenderableType:
    """One workload: where it comes from, what it holds, what a step computes, what it cannot do and why."""
    facts = {
        "task": f"{entry['domain']}, {entry['task']}",
        "source": entry["source"],
        "differs": entry["differs"],
        "stands for": ", ".join(entry["counterpart"]),
        "groups": " ".join(entry["groups"]),
        "needs": ", ".join(entry["requires"]),
        "full size": _sizes({"batch": entry["batch"], **entry["sizes"]}),
        "smoke size": _sizes(entry["smoke"]),
        "layouts": ", ".join(entry["layouts"]),
        "training": f"with {entry['optimizer']}" if entry["trains"] else "no",
    }
    if entry["inspected"]:
        facts |= _inspected_facts(entry["inspected"])
    facts |= {f"not {mode}": reason for mode, reason in entry["unsupported"].items()}
    table = fact_table({name: fact for name, fact in facts.items() if fact})
    parts: list[RenderableType] = [Text(entry["workload"], style="bold"), table]
    if entry["remedy"]:
        parts.append(Text(f"  not available here: {entry['remedy']}", style="yellow"))
    if entry["failure"]:
        parts.append(Text(f"  could not be built here: {entry['failure']}", style="red"))
    return Group(*parts)


def _inspected_facts(inspected: Inspected) -> dict[str, str]:
    frozen = inspected.parameters - inspected.trainable
    return {
        "parameters": f"{inspected.parameters:,} in {size(inspected.parameter_bytes)}"
        + (f", {frozen:,} of them frozen" if frozen else ""),
        "buffers": size(inspected.buffer_bytes) if inspected.buffer_bytes else "",
        "inputs": ", ".join(inspected.inputs),
        "a step of inference": flops_text(inspected.infer) if inspected.infer else "",
        "forward and backward": flops_text(inspected.train) if inspected.train else "",
    }


def flops_text(flops: Flops) -> str:
    """The count with its unit, and the operators that it does not include: those that multiply matrices first."""
    if flops.total is None:
        return f"not counted: {flops.reason}"
    uncounted = sorted(flops.uncounted, key=lambda each: not is_heavy(each.operator))
    bound = "at least " if flops.total and uncounted and is_heavy(uncounted[0].operator) else ""
    shown = ", ".join(f"{each.operator} ({each.calls})" for each in uncounted[:SHOWN_OPERATORS])
    more = f" and {len(uncounted) - SHOWN_OPERATORS} more" if len(uncounted) > SHOWN_OPERATORS else ""
    return f"{bound}{_count(flops.total)}FLOP, {flops.how}; not counted: {shown or 'nothing'}{more}"


def _count(number: float) -> str:
    """Three digits and a prefix: 4.09 G."""
    for prefix in ("", "k", "M", "G", "T"):
        if number < 1000:
            return f"{number:.3g} {prefix}"
        number /= 1000
    return f"{number:.3g} P"


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in sizes.items())
