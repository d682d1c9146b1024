"""The collectives of a trace: operation, message, algorithm, and how long the device was in them.

Bus bandwidth is that of nccl-tests (doc/PERFORMANCE.md): the message's bytes over the time, times 2(n-1)/n for an
all-reduce and (n-1)/n for all-gather, reduce-scatter and all-to-all, so that it compares with the links' own. A
collective that waits for another rank has a low one: the best is that of the links.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace.collective_names import OTHER_OPERATION, algorithm, names_collective, operation
from tare.trace.intervals import Integers, Intervals, Mask, difference, total
from tare.trace.messages import CollectiveMessage
from tare.trace.spans import pick
from tare.trace.tables import Trace

# How often each link carries (n-1)/n of the message.
_BUS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
# What begins on every rank and ends on none before the last one has begun.
SYNCHRONISING = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "barrier")


@dataclass(frozen=True)
class Collectives:
    """One entry for each collective kernel; `rows` are those of Trace.device. Bytes and ranks are -1 where the
    trace does not tell."""

    rows: Integers
    operations: list[str]
    algorithms: list[str]
    groups: list[str]
    bytes: Integers
    ranks: Integers
    # Bytes per second and 0 where they are unknown.
    bus: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)


class CollectiveUse(msgspec.Struct, frozen=True, kw_only=True):
    """All collectives of one operation and algorithm in the counted steps, in nanoseconds of the device. `exposed`
    is the time in which nothing was computed beside them. Rates are bytes per second."""

    operation: str
    algorithm: str
    count: int
    bytes: int | None
    ranks: int | None
    busy: int
    exposed: int
    bus_median: float | None
    bus_best: float | None


def collectives(trace: Trace, chosen: Mask | None = None) -> Collectives:
    """Those among the chosen rows of device work."""
    communicates = trace.communicates if chosen is None else trace.communicates & chosen
    rows = np.flatnonzero(communicates)
    messages = [trace.messages[code] for code in _message_codes(trace, rows).tolist()]
    names = [trace.name(trace.device, row) for row in rows.tolist()]
    around = _around(trace, rows)
    operations = [_operation(*each) for each in zip(messages, names, around, strict=True)]
    bytes_ = np.array(
        [_size(message, kind) for message, kind in zip(messages, operations, strict=True)], dtype=np.int64
    )
    ranks = np.array([message.ranks for message in messages], dtype=np.int64)
    if world := world_size(trace.metadata):
        ranks[ranks < 0] = world
    times = np.array([_BUS.get(kind, 0) for kind in operations], dtype=np.int64)
    factor = np.where(times > 0, times * (ranks - 1) / np.maximum(ranks, 1), 1.0)
    known = (bytes_ > 0) & ((ranks > 1) | (times == 0))
    time = np.maximum(trace.device.duration[rows], 1)
    return Collectives(
        rows=rows,
        operations=operations,
        algorithms=[algorithm(name) for name in names],
        groups=[f"{message.group} {message.members}".strip() for message in messages],
        bytes=bytes_,
        ranks=ranks,
        bus=np.where(known, bytes_ / time * 1e9 * factor, 0.0),
    )


def collective_uses(trace: Trace, chosen: Mask, computing: Intervals) -> list[CollectiveUse]:
    """By operation and algorithm, the longest first."""
    table, device = collectives(trace, chosen), trace.device
    labels = list(zip(table.operations, table.algorithms, strict=True))
    uses = []
    for kind, by in dict.fromkeys(labels):
        at = np.flatnonzero([label == (kind, by) for label in labels])
        covered = device.intervals(table.rows[at])
        sizes, rates, ranks = table.bytes[at], table.bus[at], table.ranks[at]
        uses.append(
            CollectiveUse(
                operation=kind,
                algorithm=by,
                count=len(at),
                bytes=int(sizes.sum()) if (sizes >= 0).all() else None,
                ranks=int(ranks.max()) if ranks.max() > 0 else None,
                busy=total(covered),
                exposed=total(difference(covered, computing)),
                bus_median=float(np.median(rates[rates > 0])) if (rates > 0).any() else None,
                bus_best=float(rates.max()) if (rates > 0).any() else None,
            )
        )
    return sorted(uses, key=lambda use: -use.busy)


def world_size(metadata: Mapping[str, object]) -> int | None:
    """The number of ranks of the job, as torch.distributed stated it."""
    return _distributed(metadata, "world_size", 1)


def rank_of(metadata: Mapping[str, object]) -> int | None:
    return _distributed(metadata, "rank", 0)


def _distributed(metadata: Mapping[str, object], key: str, least: int) -> int | None:
    info = metadata.get("distributedInfo")
    value = info.get(key) if isinstance(info, dict) else None
    valid = isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 20
    return value if valid else None


def _message_codes(trace: Trace, rows: Integers) -> Integers:
    """The kernel's own message, or that of the operation which launched it."""
    own, operators = trace.device.message[rows], trace.operators
    stated = operators.inherit(np.where(operators.message > 0, operators.message, -1))
    of_operator = pick(stated, pick(trace.calls.operator, trace.device.call[rows]))
    return np.where(own > 0, own, np.maximum(of_operator, 0))


def _around(trace: Trace, rows: Integers) -> list[str]:
    """The operator that names the collective, for kernels whose name does not: nccl:all_reduce."""
    operators = trace.operators
    named = trace.matching(operators, lambda name: names_collective(name) and operation(name) != OTHER_OPERATION)
    nearest = operators.inherit(np.where(named, np.arange(len(operators)), -1))
    found = pick(nearest, pick(trace.calls.operator, trace.device.call[rows]))
    valid = pick(named.astype(np.int64), found) > 0
    return [trace.name(operators, row) if ok else "" for row, ok in zip(found.tolist(), valid, strict=True)]


def _operation(message: CollectiveMessage, kernel: str, around: str) -> str:
    kinds = (operation(text) for text in (message.operation, kernel, around) if text)
    return next((kind for kind in kinds if kind != OTHER_OPERATION), OTHER_OPERATION)


def _size(message: CollectiveMessage, kind: str) -> int:
    """The message as nccl-tests counts it: what one rank has before a reduction or after a gathering."""
    if kind == "reduce-scatter":
        return message.sent
    if kind == "all-gather":
        return message.received
    return max(message.sent, message.received)
