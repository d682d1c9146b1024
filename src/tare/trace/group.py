"""Breakdowns of a group of workloads: each one's shares, and their means by domain.

The form of "TorchBench" (Hao et al. 2023): figures 1 and 2 (a bar a workload, training and inference apart) and
table 2 (means by domain). A mean says over how many workloads it goes; one that failed is in none.
"""

from collections.abc import Iterable
from statistics import fmean

import msgspec

from tare.trace.explanation import Explanation

PARTS = ("active", "movement", "idle")
UNKNOWN = "unknown"


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One workload in one mode. Shares of gross where that is known, since the profiler stretches the idle part;
    otherwise the medians of the profiled steps' shares, scaled to add up to one."""

    workload: str
    rung: str
    mode: str
    domain: str
    active: float
    movement: float
    idle: float


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """Over so many workloads on one rung, in one mode."""

    domain: str
    rung: str
    mode: str
    workloads: int
    active: float
    movement: float
    idle: float


class Breakdowns(msgspec.Struct, frozen=True, kw_only=True):
    bars: list[Bar]
    domains: list[Mean]
    overall: list[Mean]
    # Workloads of the group that have no breakdown, and why.
    missing: dict[str, str] = {}


def group(explanations: Iterable[Explanation], missing: dict[str, str] | None = None) -> Breakdowns:
    bars = [bar for one in explanations if (bar := _bar(one)) is not None]
    domains = sorted({bar.domain for bar in bars})
    # A mean over two rungs would be one of neither. The modes as they are spelt backwards, the rungs as they came.
    rungs = list(dict.fromkeys(bar.rung for bar in bars))
    alike = [
        mine
        for mode in sorted({bar.mode for bar in bars}, reverse=True)
        for rung in rungs
        if (mine := [bar for bar in bars if (bar.mode, bar.rung) == (mode, rung)])
    ]
    means = [_mean(name, [b for b in mine if b.domain == name]) for mine in alike for name in domains]
    return Breakdowns(
        bars=bars,
        domains=[mean for mean in means if mean],
        overall=[mean for mine in alike if (mean := _mean("all", mine))],
        missing=missing or {},
    )


def _bar(one: Explanation) -> Bar | None:
    if one.breakdown is None or one.breakdown.window == 0:
        return None
    fall = one.waterfall
    if fall.profiled:
        shares = {part: one.breakdown.share(part).median for part in PARTS}
    else:
        moved = fall.find("movement")
        shares = {
            "active": float(fall.net),
            "movement": float(moved),
            "idle": float(fall.gross - fall.net - moved),
        }
    whole = sum(shares.values())
    return Bar(
        workload=one.workload or one.title,
        rung=one.rung or "",
        mode=one.mode or "",
        domain=one.domain or UNKNOWN,
        **{part: share / whole for part, share in shares.items()},
    )


def _mean(domain: str, bars: list[Bar]) -> Mean | None:
    """Of bars of one rung and mode; a workload may have several, at several batches for one."""
    if not bars:
        return None
    means = {part: fmean(getattr(bar, part) for bar in bars) for part in PARTS}
    workloads = len({bar.workload for bar in bars})
    return Mean(domain=domain, rung=bars[0].rung, mode=bars[0].mode, workloads=workloads, **means)
