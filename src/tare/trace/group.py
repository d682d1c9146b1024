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
    domain: str
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
    modes = sorted({bar.mode for bar in bars}, reverse=True)
    domains = sorted({bar.domain for bar in bars})
    means = [_mean(d, m, [b for b in bars if b.mode == m and b.domain == d]) for m in modes for d in domains]
    return Breakdowns(
        bars=bars,
        domains=[mean for mean in means if mean.workloads],
        overall=[_mean("all", mode, [bar for bar in bars if bar.mode == mode]) for mode in modes],
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


def _mean(domain: str, mode: str, bars: list[Bar]) -> Mean:
    means = {part: fmean(getattr(bar, part) for bar in bars) if bars else 0.0 for part in PARTS}
    return Mean(domain=domain, mode=mode, workloads=len(bars), **means)
