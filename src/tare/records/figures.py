"""The figures of a record, computed from its raw samples, and how those of two records differ."""

import math
from statistics import median, quantiles
from typing import Annotated

import msgspec

from tare.records.environment import difference_lines
from tare.records.record import BatchPoint, Net, Record, Round, Series, SeriesKind, unit
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


def samples_per_second(record: Record) -> Interval | None:
    """The batch over gross: samples per second of back-to-back steps."""
    return _rate(record.case.batch, gross(record))


def tokens_per_second(record: Record) -> Interval | None:
    """The same in tokens; None where the workload does not say what a token is."""
    return _rate(record.tokens_per_step, gross(record)) if record.tokens_per_step else None


def _rate(count: int, step: Interval | None) -> Interval | None:
    if step is None or step.mid <= 0:
        return None
    # The interval of few rounds that disagree reaches below zero seconds.
    high = count / step.low if step.low > 0 else math.inf
    return Interval(count / step.high, count / step.mid, high, step.sound and math.isfinite(high))


def latency_percentile(record: Record, percent: int) -> float | None:
    """Seconds that this share of the synchronised steps of all rounds took at most, interpolated linearly between
    neighbours (Hyndman and Fan's seventh definition, which is NumPy's default). None where there are too few steps
    to have one: of fewer than 100 the 99th percentile is near the slowest."""
    steps = [value for done in good_rounds(record) for value in clean_step_seconds(done, "latency")]
    if len(steps) < 2 or len(steps) * (100 - percent) < 100:
        return None
    return quantiles(steps, n=100, method="inclusive")[percent - 1]


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


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a record, for files. None where the record has none: every round failed, the rung or device
    does not report it, or there are too few samples."""

    gross_s: Annotated[float | None, unit("s", "one step, back to back, over the rounds; the median")]
    gross_low_s: Annotated[float | None, unit("s", "lower bound of the 95 % interval of gross")]
    gross_high_s: Annotated[float | None, unit("s", "upper bound of the 95 % interval of gross")]
    net_s: Annotated[float | None, unit("s", "the part of gross in which the device computed")]
    tare_s: Annotated[float | None, unit("s", "gross minus net: what the stack itself takes")]
    samples_per_s: Annotated[float | None, unit("samples/s", "throughput: the batch over gross")]
    tokens_per_s: Annotated[
        float | None, unit("tokens/s", "tokens of one step over gross, where the workload says what a token is")
    ]
    spread: Annotated[
        float | None, unit("share", "interquartile range of a round's gross over its median, in the worst round")
    ]
    latency_s: Annotated[float | None, unit("s", "one step alone, synchronised, over the rounds; the median")]
    latency_p50_s: Annotated[float | None, unit("s", "50th percentile of the synchronised steps of all rounds")]
    latency_p95_s: Annotated[float | None, unit("s", "95th percentile of the same, from 20 steps on")]
    latency_p99_s: Annotated[float | None, unit("s", "99th percentile of the same, from 100 steps on")]
    device_s: Annotated[float | None, unit("s", "one step, back to back, between device events; the median")]
    prepare_cold_s: Annotated[float | None, unit("s", "preparation with an empty cache, or without a cache")]
    prepare_warm_s: Annotated[float | None, unit("s", "preparation with a filled cache")]
    host_peak_bytes: Annotated[int | None, unit("byte", "peak resident host memory while stepping")]
    device_peak_bytes: Annotated[
        int | None, unit("byte", "peak device memory that the allocator reserved while stepping")
    ]


def make_figures(record: Record) -> Figures:
    step, alone, cold_and_warm = gross(record), latency(record), preparation(record)
    samples, tokens = samples_per_second(record), tokens_per_second(record)
    return Figures(
        gross_s=step and step.mid,
        gross_low_s=step and step.low,
        gross_high_s=step and step.high,
        net_s=net(record),
        tare_s=tare(record),
        samples_per_s=samples and samples.mid,
        tokens_per_s=tokens and tokens.mid,
        spread=spread_within_rounds(record),
        latency_s=alone and alone.mid,
        latency_p50_s=latency_percentile(record, 50),
        latency_p95_s=latency_percentile(record, 95),
        latency_p99_s=latency_percentile(record, 99),
        device_s=device_time(record),
        prepare_cold_s=cold_and_warm[0],
        prepare_warm_s=cold_and_warm[1],
        host_peak_bytes=host_peak(record),
        device_peak_bytes=device_peak(record),
    )


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
