"""One workload in full: where it comes from, what it holds, what a step computes, what it cannot do and why."""

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tare.measure.work import is_heavy
from tare.protocol.messages import Flops, Inspected, Uncounted
from tare.records.record import Failure
from tare.report.numbers import size
from tare.report.table import simple_table
from tare.workloads import Workload

SHOWN = 6


class Description(msgspec.Struct, kw_only=True):
    workload: str
    domain: str
    task: str
    source: str
    differs: str
    counterpart: list[str]
    groups: list[str]
    requires: list[str]
    remedy: str | None
    batch: int
    sizes: dict[str, int]
    smoke: dict[str, int]
    trains: bool
    optimizer: str
    layouts: list[str]
    unsupported: dict[str, str]
    inspected: Inspected | None
    # Why it could not be built here.
    failure: str | None


def describe(
    workload: Workload, groups: Mapping[str, Sequence[str]], found: Inspected | Failure | None
) -> Description:
    return Description(
        workload=workload.name,
        domain=workload.domain,
        task=workload.task,
        source=workload.source,
        differs=workload.differs,
        counterpart=list(workload.counterpart),
        groups=[f"@{group}" for group, names in groups.items() if workload.name in names],
        requires=list(workload.requires),
        remedy=workload.remedy(),
        batch=workload.batch,
        sizes=workload.defaults,
        smoke={"batch": workload.smoke_batch, **workload.smoke_sizes},
        trains=workload.refusal({"train", "fp32", "cpu", "eager"}) is None,
        optimizer=workload.optimizer,
        layouts=list(workload.layouts),
        unsupported=dict(workload.unsupported),
        inspected=found if isinstance(found, Inspected) else None,
        failure=f"{found.cause}: {found.message}" if isinstance(found, Failure) else None,
    )


def workload_view(found: Description) -> RenderableType:
    facts = {
        "task": f"{found.domain}, {found.task}",
        "source": found.source,
        "differs": found.differs,
        "stands for": ", ".join(found.counterpart),
        "groups": " ".join(found.groups),
        "needs": ", ".join(found.requires),
        "full size": _sizes({"batch": found.batch, **found.sizes}),
        "smoke size": _sizes(found.smoke),
        "layouts": ", ".join(found.layouts),
        "training": f"with {found.optimizer}" if found.trains else "no",
    }
    if found.inspected:
        facts |= _figures(found.inspected)
    facts |= {f"not {what}": why for what, why in found.unsupported.items()}
    table = simple_table("")
    table.add_column("", overflow="fold")
    table.show_header = False
    for name, value in facts.items():
        if value:
            table.add_row(name, value)
    lines: list[RenderableType] = [Text(found.workload, style="bold"), table]
    if found.remedy:
        lines.append(Text(f"  not available here: {found.remedy}", style="yellow"))
    if found.failure:
        lines.append(Text(f"  could not be built here: {found.failure}", style="red"))
    return Group(*lines)


def flops_text(flops: Flops) -> str:
    """The count with its unit and, in one line, what it leaves out."""
    if flops.total is None:
        return f"not counted: {flops.reason}"
    heavy = [one for one in flops.uncounted if is_heavy(one.operator)]
    bound = "at least " if heavy and flops.total else ""
    shown = ", ".join(f"{one.operator} ({one.calls})" for one in [*heavy, *_light(flops)][:SHOWN])
    more = len(flops.uncounted) - SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"{bound}{_count(flops.total)}FLOP, {flops.how}; not counted: {shown or 'nothing'}{rest}"


def _light(flops: Flops) -> list[Uncounted]:
    return [one for one in flops.uncounted if not is_heavy(one.operator)]


def _figures(found: Inspected) -> dict[str, str]:
    frozen = found.parameters - found.trainable
    facts = {
        "parameters": f"{found.parameters:,} in {size(found.parameter_bytes)}"
        + (f", {frozen:,} of them frozen" if frozen else ""),
        "buffers": size(found.buffer_bytes) if found.buffer_bytes else "",
        "inputs": ", ".join(found.inputs),
    }
    if found.infer:
        facts["a step of inference"] = flops_text(found.infer)
    if found.train:
        facts["forward and backward"] = flops_text(found.train)
    return facts


def _count(number: int) -> str:
    """With three digits and a unit: 4.09 G."""
    value = float(number)
    for unit in ("", "k", "M", "G", "T", "P"):
        if value < 1000 or unit == "P":
            return f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in sizes.items())
