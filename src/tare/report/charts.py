"""Charts of explanations: the waterfall of a step, a ladder of waterfalls, the breakdowns of a group."""

from collections.abc import Sequence

from tare.report.numbers import percent, seconds, unit_of
from tare.report.svg import INK, Bar, bar_chart, colour, stacked
from tare.trace.group import WorkloadShares, parts_of
from tare.trace.waterfall import MEANING, ORDER, Waterfall

# Without a device, operators do what kernels do on one.
ON_HOST = {
    "kernels": "operators compute (no roofline: nothing was counted, or no peaks are known)",
    "kernel inefficiency": "operators that take longer than their operations and bytes would",
    "unfused traffic": "results written to memory and read again because operators are not fused",
}


def waterfall_svg(waterfall: Waterfall, on_host: bool = False) -> str:
    """One bar a segment, each starting where the previous one ended; gross at the bottom. `on_host`: there is no
    device, and operators compute."""
    gross, start, bars = waterfall.gross, 0, []
    for segment in waterfall.segments:
        drawn = (segment.ns, colour(segment.name), _meaning(segment.name, on_host))
        bars.append(Bar(segment.name, [drawn], _amount(segment.ns, waterfall), start=start))
        start += segment.ns
    name = "profiled step" if waterfall.profiled else "gross"
    bars.append(Bar(name, [(gross, INK, "measured without a profiler")], _amount(gross, waterfall)))
    if waterfall.profiled:
        subtitle = "shares of a profiled step: how long it takes without a profiler is not known"
        ticks: dict[float, str] = {gross * i / 4: f"{25 * i} %" for i in range(5)}
    else:
        who = "operators compute" if on_host else "the device computes"
        subtitle = f"one step takes {seconds(gross / 1e9)}; {who} for {seconds(waterfall.net / 1e9)} of it"
        ticks = _ticks(gross)
    return stacked([bar_chart(waterfall.title, subtitle, bars, gross, ticks=ticks)])


def ladder_svg(falls: Sequence[Waterfall], names: Sequence[str], title: str, on_host: bool = False) -> str:
    """One bar a rung, on one scale of time, with a legend of the segments that occur."""
    bars = []
    for fall, name in zip(falls, names, strict=True):
        drawn = [(part.ns, colour(part.name), f"{part.name}: {_amount(part.ns, fall)}") for part in fall.segments]
        bars.append(Bar(name, drawn, seconds(fall.gross / 1e9)))
    present = [name for name in ORDER if any(fall.find(name) for fall in falls)]
    legend = {name: (colour(name), _meaning(name, on_host)) for name in present}
    longest = max(fall.gross for fall in falls)
    return stacked([bar_chart(title, "", bars, longest, ticks=_ticks(longest), legend=legend)])


def breakdown_svg(shares: Sequence[WorkloadShares], title: str) -> str:
    """One bar a workload, divided into active, movement and idle (figures 1 and 2 of the TorchBench paper)."""
    several_rungs, names = len({each.rung for each in shares}) > 1, parts_of(shares)
    bars = []
    for each in shares:
        parts = {part: getattr(each, part) for part in names}
        drawn = [(share, colour(part), f"{part} {100 * share:.1f} %") for part, share in parts.items()]
        label = f"{each.workload} on {each.rung}" if several_rungs else each.workload
        bars.append(Bar(label, drawn, f"{100 * each.active:.0f} %"))
    legend = {part: (colour(part), "") for part in names}
    return stacked([bar_chart(title, "", bars, 1.0, legend=legend, row_height=24)])


def _meaning(name: str, on_host: bool) -> str:
    return ON_HOST.get(name, MEANING[name]) if on_host else MEANING[name]


def _amount(ns: int, waterfall: Waterfall) -> str:
    share = percent(ns / waterfall.gross) if waterfall.gross else ""
    return share if waterfall.profiled else f"{seconds(ns / 1e9)} · {share}"


def _ticks(most: int) -> dict[float, str]:
    """Four to eight round numbers of nanoseconds from zero up."""
    size = 10 ** (len(str(most)) - 1)
    step = next((s for s in (size // 10, size // 5, size // 2, size, 2 * size) if s and most / s <= 8), size)
    scale, unit = unit_of(most / 1e9)
    return {ns: f"{ns / 1e9 / scale:.3g} {unit}" for ns in range(0, most + 1, max(step, 1))}
