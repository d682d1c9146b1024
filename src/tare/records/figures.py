"""The figures of a record, computed from its raw samples, and how those of two records differ."""

from statistics import median, quantiles

import msgspec

from tare.records.environment import difference_lines
from tare.records.record import BatchPoint, Net, Record, Round, Series, SeriesKind
from tare.stats.intervals import Interval, median_interval, process_interval

# A round with fewer unthrottled blocks than this keeps the throttled ones, so that it has a (marked) figure.
FEWEST_BLOCKS = 5


def gross(record: Record) -> Interval | None:
    """Seconds of one pipelined step, over the rounds."""
    return _over_rounds(record, "pipelined")


def latency(record: Record) -> Interval | None:
    """Seconds of one synchronised step, over the rounds."""
    return _over_rounds(record, "latency")


def net(record: Record) -> float | None:
    """Seconds of one pipelined step in which the device computed: at most gross, as it is a part of it."""
    step, profiled = gross(record), net_profile(record)
    if step is None or profiled is None:
        return None
    if profiled.busy_s is not None:
        return min(profiled.busy_s, step.mid)
    return None if profiled.share is None else profiled.share * step.mid


def tare(record: Record) -> float | None:
    """Gross minus net: the seconds of one step that the stack itself takes."""
    step, computing = gross(record), net(record)
    return step.mid - computing if step and computing is not None else None


def net_profile(record: Record) -> Net | None:
    return next((done.net for done in good_rounds(record) if done.net), None)


def device_time(record: Record) -> float | None:
    """Seconds of one pipelined step between device events: the median of the rounds' medians."""
    rounds = [(done, series) for done in good_rounds(record) if (series := done.find("pipelined"))]
    seconds = [_without_throttled(done, series, series.device_step_seconds()) for done, series in rounds]
    medians = [median(values) for values in seconds if values]
    return median(medians) if medians else None


def preparation(record: Record) -> tuple[float | None, float | None]:
    """Seconds of preparation with a cold and with a warm cache; a rung without a cache has only the first."""
    cold = [r.prepare_s for r in good_rounds(record) if r.prepare_s is not None and r.cache != "warm"]
    warm = [r.prepare_s for r in good_rounds(record) if r.prepare_s is not None and r.cache == "warm"]
    return (median(cold) if cold else None, median(warm) if warm else None)


def host_peak(record: Record) -> int | None:
    return max((r.host_memory.peak for r in good_rounds(record) if r.host_memory), default=None)


def device_peak(record: Record) -> int | None:
    """Peak bytes reserved by the allocator while stepping. Bytes allocated would miss a CUDA graph's pool."""
    peaks = [r.device_memory.reserved_peak for r in good_rounds(record) if r.device_memory]
    return max((peak for peak in peaks if peak is not None), default=None)


def throttled_share(record: Record) -> float:
    """The share of pipelined blocks that were taken under throttling."""
    throttled = sum(len(r.throttled.get("pipelined", [])) for r in good_rounds(record))
    blocks = sum(len(s.wall_ns) for r in good_rounds(record) if (s := r.find("pipelined")))
    return throttled / blocks if blocks else 0.0


def spread_within_rounds(record: Record) -> float | None:
    """The interquartile range of a round's pipelined blocks as a share of their median, in the worst round."""
    shares = []
    for done in good_rounds(record):
        seconds = clean_step_seconds(done, "pipelined")
        if len(seconds) >= FEWEST_BLOCKS and (middle := median(seconds)) > 0:
            lower, _, upper = quantiles(seconds, n=4)
            shares.append((upper - lower) / middle)
    return max(shares, default=None)


def spread_between_rounds(record: Record) -> float | None:
    """How far the medians of the rounds lie apart, as a share of their median; None for a single round."""
    medians = [step.mid for done in good_rounds(record) if (step := round_median(done, "pipelined"))]
    if len(medians) < 2 or median(medians) <= 0:
        return None
    return (max(medians) - min(medians)) / median(medians)


def throughput(point: BatchPoint) -> float | None:
    """Items per second at one batch of a search; None where it failed."""
    step = round_median(point.round, "pipelined") if point.round.failure is None else None
    return point.batch / step.mid if step and step.mid > 0 else None


def good_rounds(record: Record) -> list[Round]:
    return [r for r in record.rounds if r.failure is None]


def round_median(done: Round, kind: SeriesKind) -> Interval | None:
    """The median of one round's series, with the interval that this one process gives."""
    seconds = clean_step_seconds(done, kind)
    return median_interval(seconds) if seconds else None


def clean_step_seconds(done: Round, kind: SeriesKind) -> list[float]:
    """Seconds per step, one value a block, without the throttled blocks unless too few others remain."""
    series = done.find(kind)
    return _without_throttled(done, series, series.step_seconds()) if series else []


def _without_throttled(done: Round, series: Series, values: list[float]) -> list[float]:
    throttled = set(done.throttled.get(series.kind, []))
    clean = [value for i, value in enumerate(values) if i not in throttled]
    return clean if len(clean) >= FEWEST_BLOCKS else values


def _over_rounds(record: Record, kind: SeriesKind) -> Interval | None:
    intervals = [i for r in good_rounds(record) if (i := round_median(r, kind)) is not None]
    if not intervals:
        return None
    if len(intervals) == 1:
        # The interval of one process is marked as not sound: it excludes the noise between processes.
        return intervals[0]._replace(sound=False)
    return process_interval([i.mid for i in intervals])


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """`clear` is True where the two intervals do not overlap, and None where either has no valid interval."""

    name: str
    unit: str
    before: float | None
    after: float | None
    ratio: float | None
    clear: bool | None = None


class RecordChanges(msgspec.Struct, frozen=True, kw_only=True):
    before: str
    after: str
    case: list[str]
    environment: list[str]
    figures: list[FigureChange]


def record_changes(before: Record, after: Record) -> RecordChanges:
    old, new = (msgspec.structs.asdict(record.case) for record in (before, after))
    figures = [
        _change("gross", "s", gross(before), gross(after)),
        _change("net", "s", net(before), net(after)),
        _change("latency", "s", latency(before), latency(after)),
        _change("device time", "s", device_time(before), device_time(after)),
        _change("preparation, cold", "s", preparation(before)[0], preparation(after)[0]),
        _change("preparation, warm", "s", preparation(before)[1], preparation(after)[1]),
        _change("host peak", "B", host_peak(before), host_peak(after)),
        _change("device peak", "B", device_peak(before), device_peak(after)),
    ]
    return RecordChanges(
        before=before.id,
        after=after.id,
        case=[f"{name}: {old[name]} against {new[name]}" for name in old if old[name] != new[name]],
        environment=difference_lines(before.environment, after.environment),
        figures=[figure for figure in figures if figure.before is not None or figure.after is not None],
    )


def _change(name: str, unit: str, before: Interval | float | None, after: Interval | float | None) -> FigureChange:
    clear = None
    if isinstance(before, Interval) and isinstance(after, Interval) and before.sound and after.sound:
        clear = before.high < after.low or after.high < before.low
    old, new = (value.mid if isinstance(value, Interval) else value for value in (before, after))
    ratio = new / old if old and new is not None else None
    return FigureChange(name=name, unit=unit, before=old, after=new, ratio=ratio, clear=clear)
