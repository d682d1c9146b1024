"""What there is: workloads, groups, rungs, findings, formats and records, as entries for JSON and as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from tare.cases.case import Case
from tare.cases.plan import open_names
from tare.errors import unknown
from tare.findings.finding import all_rules, get_rule
from tare.measure.work import is_heavy
from tare.protocol.messages import Flops, Inspected, Missing, Probed
from tare.records.figures import gross
from tare.records.record import Failure, Record
from tare.report.formats import all_formats
from tare.report.ladder import sizes
from tare.report.numbers import duration, prefixed, size
from tare.report.view import FittingTable, View
from tare.rungs import Rung, all_rungs
from tare.rungs.registry import excluded_by_default
from tare.workloads import Workload, all_workloads, get_workload
from tare.workloads.base import DOMAINS
from tare.workloads.groups import all_groups

Entry = dict[str, Any]

# Columns that may be folded, with the width they keep, those of other words, and those dropped first on a narrow
# terminal.
FOLDED = {"workload": 0, "rung": 0, "finding": 0, "name": 0, "group": 0, "sizes": 30} | dict.fromkeys(
    ("case", "available", "summary", "sees", "remedy", "task", "workloads"), 16
)
WORDS = ("id", "created", "format", "of", "status")
SPARE = ("created", "sizes", "task", "remedy", "batch")
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
        **{name: getattr(workload, name) for name in ("domain", "task", "batch")},
        "sizes": workload.defaults,
        "smoke": {"batch": workload.smoke_batch, **workload.smoke_sizes},
        "groups": [f"@{group}" for group, names in groups.items() if workload.name in names],
        **{name: getattr(workload, name) for name in ("trains", "source", "differs")},
        "available": f"no: {remedy}" if remedy else "yes",
    }


def describe_workload(
    workload: Workload, groups: Mapping[str, Sequence[str]], inspected: Inspected | Failure | None
) -> Entry:
    """All that is known of one workload; `inspected` holds its parameters and FLOPs, or why it was not built."""
    failure = f"{inspected.cause}: {inspected.message}" if isinstance(inspected, Failure) else None
    return _workload(workload, groups) | {
        **{name: getattr(workload, name) for name in ("counterpart", "requires", "optimizer", "layouts")},
        "remedy": workload.remedy(),
        "trains": workload.refusal({"train", "fp32", "cpu", "eager"}) is None,
        "unsupported": dict(workload.unsupported),
        "inspected": None if failure else inspected,
        "failure": failure,
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
        "project": record.project,
        "tags": record.tags,
    }


def list_view(entries: list[Entry], heads: tuple[str, ...]) -> View:
    if not entries:
        return View().add("plain", "none")
    rows = [{head: _cell(entry[head], head) for head in heads} for entry in entries]
    view = View().put(FittingTable(rows, words=WORDS, folds=FOLDED, spare=SPARE))
    for entry in entries:
        if entry.get("reason"):
            view.add("warning", f"{entry['rung']} is not available: {entry['reason']}; {entry['remedy']}")
        if entry.get("skipped_by_default"):
            view.add("aside", f"{entry['rung']} is in no default ladder: {entry['skipped_by_default']}")
    return view


def _cell(value: Any, head: str) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if head == "created":
        return str(value)[:16].replace("T", " ")
    return sizes(value) if isinstance(value, dict) else str(value)


def workload_view(entry: Entry) -> View:
    """One workload: where it comes from, what it holds, what a step computes, what it cannot do and why."""
    facts = {
        "task": f"{entry['domain']}, {entry['task']}",
        "source": entry["source"],
        "differs": entry["differs"],
        "stands for": ", ".join(entry["counterpart"]),
        "groups": " ".join(entry["groups"]),
        "needs": ", ".join(entry["requires"]),
        "full size": sizes({"batch": entry["batch"], **entry["sizes"]}),
        "smoke size": sizes(entry["smoke"]),
        "layouts": ", ".join(entry["layouts"]),
        "training": f"with {entry['optimizer']}" if entry["trains"] else "no",
    }
    if entry["inspected"]:
        facts |= _inspected_facts(entry["inspected"])
    facts |= {f"not {mode}": reason for mode, reason in entry["unsupported"].items()}
    view = View(entry["workload"]).facts(facts)
    view.add("warning", f"not available here: {entry['remedy']}" if entry["remedy"] else "")
    return view.add("failure", f"could not be built here: {entry['failure']}" if entry["failure"] else "")


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
    return f"{bound}{prefixed(flops.total, 'FLOP')}, {flops.how}; not counted: {shown or 'nothing'}{more}"
