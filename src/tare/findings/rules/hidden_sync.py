"""The host waits for the device in the middle of a step, implicitly: item(), nonzero(), a mask, printing."""

import numpy as np

from tare.findings import Context, Match, rule, spans_of
from tare.findings.rules.parameter_ping_pong import FEWEST, there_and_back
from tare.trace.counting import types
from tare.trace.tables import COPY, DEVICE_TO_HOST, Integers

# What is fetched is a number, or a few to print; more is a result that somebody wants.
FEW_BYTES = 1024
# Operators whose result is a truth value, or one for each element.
TRUTH_VALUED = {
    "all", "any", "_is_all_true", "_is_any_true", "eq", "ne", "lt", "le", "gt", "ge", "isclose",
    "isfinite", "isnan", "isinf", "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_not", "__and__", "__or__",
}  # fmt: skip


@rule(
    "hidden-sync",
    sees="A value of at most 1 KiB is fetched from the device within the step (item, nonzero, a mask, printing).",
    remedy="Keep the decision on the device (torch.where, a masked sum) or fetch the value steps later or rarely.",
)
def look(context: Context) -> Match | None:
    single = [rows for rows in fetches_by_location(context) if len(rows) <= context.steps]
    return fetch_match(context, single, "is waited for in the middle of the step") if single else None


def fetches_by_location(context: Context) -> list[list[int]]:
    """Waiting calls that fetch a small value in every step, grouped by location. Waits that complete a copy to the
    device are not among them, and neither are values fetched now and then (a log every hundred steps)."""
    calls, device = context.trace.calls, context.trace.device
    fetched = (device.kind == COPY) & (device.direction == DEVICE_TO_HOST) & (device.bytes <= FEW_BYTES)
    operators = calls.operator[device.call[fetched & (device.call >= 0)]]
    waits = context.syncs
    small = np.isin(calls.operator[waits], operators[operators >= 0])
    if context.per_step(len(there_and_back(context)[0])) >= FEWEST:
        # Parameters travel to the host and back: the small ones among them are no values that somebody asks for.
        asking = context.calls_under(context.operators("aten::item", "aten::is_nonzero", "aten::nonzero"))
        small &= np.isin(waits, asking)
    groups = context.locator.of_calls(waits[small]).values()
    return [rows for rows in groups if context.in_every_step(calls, rows)]


def fetch_match(context: Context, groups: list[list[int]], event: str, checks: bool = False) -> Match:
    """`checks`: with a fetched truth value, the comparisons go that serve nothing else."""
    calls = context.trace.calls
    waits = np.array(sorted(row for rows in groups for row in rows), dtype=np.int64)
    removable = _removable_operators(context, waits, checks)
    rows = np.array(sorted({row for group in removable for row in group}), dtype=np.int64)
    removed_calls = np.unique(np.concatenate([waits, _fetching_calls(context, waits), context.calls_under(rows)]))
    names = sorted({_called_operator(context, int(row)) for row in waits.tolist()})
    return Match(
        summary=f"{context.times(len(waits))} a value {event} ({', '.join(names[:3])})",
        evidence={
            "waits_per_step": context.per_step(len(waits)),
            "waiting_s_per_step": context.seconds(calls, waits),
        },
        locations=context.call_locations(waits),
        saving_s=context.saving(context.without(removed_calls, context.neighbours.spans(removable))),
        spans=spans_of(calls, waits),
    )


def _fetching_calls(context: Context, waits: Integers) -> Integers:
    """The copying calls of the operators that wait."""
    calls = context.trace.calls
    operators = np.unique(calls.operator[waits])
    copying = context.trace.device.call[context.trace.device.copies]
    return copying[np.isin(calls.operator[copying], operators[operators >= 0]) & (copying >= 0)]


def _removable_operators(context: Context, waits: Integers, checks: bool) -> list[list[int]]:
    """Operators that go entirely: those that do nothing but fetch (aten::item), and the search for the positions
    of a mask (aten::nonzero, also within y[mask]), which nobody needs if the mask stays on the device."""
    kind = context.trace.device.kind
    waiting = np.unique(context.trace.calls.operator[waits])
    roots = context.activities_by(context.roots(waiting))
    fetching = [root for root, activities in roots.items() if (kind[activities] == COPY).all()]
    searches = np.unique(context.owners(context.operators("aten::nonzero"))[waiting[waiting >= 0]])
    groups = [_check(context, root) if checks else [root] for root in fetching]
    return groups + [[int(row)] for row in searches[searches >= 0]]


def _check(context: Context, fetching: int) -> list[int]:
    """An operator that fetches a truth value, and those directly before it that compute one."""
    group = [fetching]
    if "bool" in types(context.trace, fetching)[:1]:
        while (before := context.neighbours.before(group[0])) >= 0 and _is_truth_valued(context, before):
            group.insert(0, before)
    return group


def _is_truth_valued(context: Context, row: int) -> bool:
    return context.trace.name(context.trace.operators, row).removeprefix("aten::") in TRUTH_VALUED


def _called_operator(context: Context, call: int) -> str:
    """The outermost operator that the user called: aten::item rather than aten::_local_scalar_dense."""
    roots = context.roots(context.trace.calls.operator[call : call + 1])
    return context.trace.name(context.trace.operators, int(roots[0])) if len(roots) else "a synchronisation"
