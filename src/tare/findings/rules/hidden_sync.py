"""The host waits for the device in the middle of a step, implicitly: item(), nonzero(), a mask, printing. Where it
does so several times a step at one location, it is a loop, or a check made twice (the TorchBench paper, listing
5)."""

import numpy as np

from tare.findings import Context, Match, flat, grouped, rule
from tare.findings.rules.copies import ping_pong_copies
from tare.trace.counting import types
from tare.trace.tables import COPY, DEVICE_TO_HOST, Integers
from tare.trace.windows import step_at

# What is fetched is a number, or a few to print; more is a result that somebody wants.
FEW_BYTES = 1024
# Operators whose result is a truth value, or one for each element.
TRUTH_VALUED = {
    "all", "any", "_is_all_true", "_is_any_true", "eq", "ne", "lt", "le", "gt", "ge", "isclose",
    "isfinite", "isnan", "isinf", "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_not", "__and__", "__or__",
}  # fmt: skip


@rule("Keep the decision on the device (torch.where, a masked sum) or fetch the value steps later or rarely.")
def hidden_sync(context: Context) -> Match | None:
    """A value of at most 1 KiB is fetched from the device within the step (item, nonzero, a mask, printing)."""
    single = [rows for rows in _fetches_by_location(context) if len(rows) <= context.steps]
    waits = flat(single)
    where = "in the middle" if _launches_follow(context, waits) else "at the end"
    return _match(context, waits, f"is waited for {where} of the step")


@rule("Drop the redundant check, or stack the values on the device and fetch them together.")
def repeated_sync(context: Context) -> Match | None:
    """A value of at most 1 KiB is fetched from the device more than once a step at the same place."""
    repeated = [rows for rows in _fetches_by_location(context) if len(rows) > context.steps]
    return _match(context, flat(repeated), "is waited for at one place", checks=True)


def _launches_follow(context: Context, waits: Integers) -> bool:
    """Whether a step goes on after one of these waits: it launches something more."""
    calls, steps = context.trace.calls, context.trace.steps
    step = step_at(context.trace, calls.start[waits])
    launching = calls.start[calls.launches]
    following = np.searchsorted(launching, calls.end[waits])
    after = np.append(launching, np.iinfo(np.int64).max)[following]
    return bool((after < np.append(steps.end, 0)[step]).any())


def _fetches_by_location(context: Context) -> list[list[int]]:
    """Waiting calls that fetch a small value in every step, grouped by location. Waits that complete a copy to the
    device are not among them, and neither are values fetched now and then (a log every hundred steps)."""
    calls, device = context.trace.calls, context.trace.device
    fetched = (device.kind == COPY) & (device.direction == DEVICE_TO_HOST) & (device.bytes <= FEW_BYTES)
    operators = calls.operator[device.call[fetched & (device.call >= 0)]]
    waits = context.syncs[np.isin(calls.operator[context.syncs], operators[operators >= 0])]
    if len(ping_pong_copies(context)):
        # Parameters travel to the host and back: the small ones among them are no values that somebody asks for.
        asking = context.operators("aten::item", "aten::is_nonzero", "aten::nonzero")
        waits = np.intersect1d(waits, context.calls_under(asking))
    groups = grouped(waits.tolist(), context.locator.of_call).values()
    return [rows for rows in groups if context.in_every_step(calls, rows)]


def _match(context: Context, waits: Integers, event: str, checks: bool = False) -> Match | None:
    """`checks`: with a fetched truth value, the comparisons go that serve nothing else."""
    calls, copying = context.trace.calls, context.trace.device.call[context.trace.device.copies]
    if len(waits) == 0:
        return None
    operators = np.unique(calls.operator[waits])
    operators = operators[operators >= 0]
    removable = _removable_operators(context, operators, checks)
    fetching = copying[np.isin(calls.operator[copying], operators) & (copying >= 0)]
    removed_calls = flat([waits, fetching, context.calls_under(flat(removable))])
    # The operator that the user called: aten::item rather than aten::_local_scalar_dense.
    names = sorted({context.trace.name(context.trace.operators, row) for row in context.roots(operators).tolist()})
    return Match(
        summary=f"{context.times(len(waits))} a value {event} ({', '.join(names[:3])})",
        evidence={
            "waits_per_step": context.per_step(len(waits)),
            "waiting_s_per_step": context.seconds(calls, waits),
        },
        locations=context.locations(calls, waits),
        saving_s=context.saving(context.without(removed_calls, context.neighbours.spans(removable))),
        spans=calls.intervals(waits),
    )


def _removable_operators(context: Context, waiting: Integers, checks: bool) -> list[list[int]]:
    """Operators that go entirely: those that do nothing but fetch (aten::item), and the search for the positions
    of a mask (aten::nonzero, also within y[mask]), which nobody needs if the mask stays on the device."""
    kind = context.trace.device.kind
    roots = context.activities_by(context.roots(waiting))
    fetching = [root for root, activities in roots.items() if (kind[activities] == COPY).all()]
    searches = np.unique(context.owners(context.operators("aten::nonzero"))[waiting])
    groups = [_check(context, root) if checks else [root] for root in fetching]
    return groups + [[row] for row in searches[searches >= 0].tolist()]


def _check(context: Context, fetching: int) -> list[int]:
    """An operator that fetches a truth value, and those directly before it that compute one."""
    group, trace = [fetching], context.trace
    if "bool" in types(trace, fetching)[:1]:
        while (before := int(context.neighbours.before[group[0]])) >= 0 and (
            trace.name(trace.operators, before).removeprefix("aten::") in TRUTH_VALUED
        ):
            group.insert(0, before)
    return group
