"""Breakdowns of a group of workloads: the shares of each, and their means by domain.

The form of "TorchBench" (Hao et al. 2023): figures 1 and 2 (a bar per workload, training and inference apart) and
table 2 (means by domain). A mean states its number of workloads; a workload that failed is in none.
"""

from collections.abc import Iterable
from statistics import fmean

import msgspec

from tare.trace.explanation import Explanation

PARTS = ("active", "movement", "idle")
# Traces with collectives have a fourth part.
COMMUNICATING_PARTS = ("active", "communicating", "movement", "idle")
UNKNOWN = "unknown"


class Shares(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shares of a step on one rung, in one mode; they add up to one."""

    domain: str
    rung: str
    mode: str
    active: float
    movement: float
    idle: float
    communicating: float = 0.0


class WorkloadShares(Shares, frozen=True, kw_only=True, omit_defaults=True):
    """One workload: shares of gross or, where gross is not known, scaled medians of the profiled steps' shares.
    The profiler stretches the idle part."""

    workload: str


class DomainShares(Shares, frozen=True, kw_only=True, omit_defaults=True):
    """The mean over `workloads` workloads."""

    workloads: int


class GroupBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    bars: list[WorkloadShares]
    domains: list[DomainShares]
    overall: list[DomainShares]
    # Workloads of the group that have no breakdown, and why.
    missing: dict[str, str] = {}


def parts_of(shares: Iterable[Shares]) -> tuple[str, ...]:
    """The parts to show of these: a fourth one where any of them communicates."""
    return COMMUNICATING_PARTS if any(each.communicating for each in shares) else PARTS


def group_breakdowns(explanations: Iterable[Explanation], missing: dict[str, str] | None = None) -> GroupBreakdown:
    bars = [bar for explanation in explanations if (bar := _shares(explanation)) is not None]
    domains = sorted({bar.domain for bar in bars})
    # Means are within one rung and mode: training first, the rungs in the order given.
    rungs = list(dict.fromkeys(bar.rung for bar in bars))
    groups = [
        group
        for mode in sorted({bar.mode for bar in bars}, reverse=True)
        for rung in rungs
        if (group := [bar for bar in bars if (bar.mode, bar.rung) == (mode, rung)])
    ]
    by_domain = [(name, [bar for bar in group if bar.domain == name]) for group in groups for name in domains]
    return GroupBreakdown(
        bars=bars,
        domains=[_mean(name, group) for name, group in by_domain if group],
        overall=[_mean("all", group) for group in groups],
        missing=missing or {},
    )


def _shares(explanation: Explanation) -> WorkloadShares | None:
    if explanation.breakdown is None or explanation.breakdown.window == 0:
        return None
    waterfall, parts = explanation.waterfall, COMMUNICATING_PARTS
    if waterfall.profiled:
        shares = [explanation.breakdown.share(part).median for part in parts]
    else:
        busy = waterfall.net, waterfall.find("communication"), waterfall.find("movement")
        shares = [*map(float, busy), float(waterfall.gross - sum(busy))]
    return WorkloadShares(
        workload=explanation.workload or explanation.title,
        rung=explanation.rung or "",
        mode=explanation.mode or "",
        domain=explanation.domain or UNKNOWN,
        **{part: share / sum(shares) for part, share in zip(parts, shares, strict=True)},
    )


def _mean(domain: str, bars: list[WorkloadShares]) -> DomainShares:
    """The mean of bars of one rung and mode. A workload may have several, for example at several batch sizes."""
    means = {part: fmean(getattr(bar, part) for bar in bars) for part in COMMUNICATING_PARTS}
    workloads = len({bar.workload for bar in bars})
    return DomainShares(domain=domain, rung=bars[0].rung, mode=bars[0].mode, workloads=workloads, **means)
