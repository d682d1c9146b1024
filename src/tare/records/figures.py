"""The figures of a record, computed from its raw samples when asked for."""

from statistics import median

from tare.records.record import BatchPoint, Record, Round, Series, SeriesKind
from tare.stats.intervals import Interval, median_interval, process_interval

# A round with fewer unthrottled blocks than this keeps the throttled ones: a marked figure beats none.
FEWEST_BLOCKS = 5


def gross(record: Record) -> Interval | None:
    """Seconds of one pipelined step over the rounds."""
    return _over_rounds(record, "pipelined")


def latency(record: Record) -> Interval | None:
    """Seconds of one synchronised step over the rounds."""
    return _over_rounds(record, "latency")


def device_time(record: Record) -> float | None:
    """Seconds of one pipelined step between device events: the median of the rounds' medians."""
    medians = []
    for done in good_rounds(record):
        series = done.find("pipelined")
        seconds = series.device_step_seconds(_left_out(done, series)) if series else None
        if seconds:
            medians.append(median(seconds))
    return median(medians) if medians else None


def preparation(record: Record) -> tuple[float | None, float | None]:
    """Seconds of preparation with a cold and with a warm cache; a rung without a cache has only the first."""
    cold = [r.prepare_s for r in good_rounds(record) if r.prepare_s is not None and r.cache != "warm"]
    warm = [r.prepare_s for r in good_rounds(record) if r.prepare_s is not None and r.cache == "warm"]
    return (median(cold) if cold else None, median(warm) if warm else None)


def host_peak(record: Record) -> int | None:
    return max((r.host_memory.peak for r in good_rounds(record) if r.host_memory), default=None)


def device_peak(record: Record) -> int | None:
    """What the allocator held at most while stepping. Not what it gave out: that misses a CUDA graph's pool."""
    peaks = [r.device_memory.reserved_peak for r in good_rounds(record) if r.device_memory]
    return max((peak for peak in peaks if peak is not None), default=None)


def throttled_share(record: Record) -> float:
    """The share of pipelined blocks that were taken under throttling."""
    marked = sum(len(r.throttled.get("pipelined", [])) for r in good_rounds(record))
    taken = sum(len(s.wall_ns) for r in good_rounds(record) if (s := r.find("pipelined")))
    return marked / taken if taken else 0.0


def throughput(point: BatchPoint) -> float | None:
    """Items a second at one batch of a search; None where it failed."""
    step = round_median(point.round, "pipelined") if point.round.failure is None else None
    return point.batch / step.mid if step and step.mid > 0 else None


def good_rounds(record: Record) -> list[Round]:
    return [r for r in record.rounds if r.failure is None]


def round_median(done: Round, kind: SeriesKind) -> Interval | None:
    """The median of one round's series with its interval within that process."""
    seconds = clean_step_seconds(done, kind)
    return median_interval(seconds) if seconds else None


def clean_step_seconds(done: Round, kind: SeriesKind) -> list[float]:
    """Seconds of one step, block by block, without the throttled blocks unless too few others are left."""
    series = done.find(kind)
    if series is None:
        return []
    return series.step_seconds(_left_out(done, series))


def _left_out(done: Round, series: Series) -> frozenset[int]:
    """The throttled blocks; none of them where too few others would be left."""
    marked = frozenset(done.throttled.get(series.kind, []))
    left = sum(i not in marked for i in range(len(series.wall_ns)))
    return marked if left >= FEWEST_BLOCKS else frozenset()


def _over_rounds(record: Record, kind: SeriesKind) -> Interval | None:
    intervals = [i for r in good_rounds(record) if (i := round_median(r, kind)) is not None]
    if not intervals:
        return None
    if len(intervals) == 1:
        # One process: its own interval, marked as not sound since it says nothing of other processes.
        return intervals[0]._replace(sound=False)
    return process_interval([i.mid for i in intervals])
