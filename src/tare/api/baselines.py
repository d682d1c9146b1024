"""A measurement against a baseline of the store, for tests of speed (tare.pytest_plugin)."""

from dataclasses import dataclass

from tare.errors import BadInput, quote
from tare.guard.changes import MetricChange
from tare.guard.comparable import refuse_differences, split_differences, were_interleaved
from tare.guard.compare import LEVEL, Rules, judge_tests, run_tests
from tare.guard.metrics import METRICS
from tare.guard.thresholds import make_thresholds
from tare.records.figures import good_rounds
from tare.records.record import Record
from tare.report.numbers import change_text, percent
from tare.store.baselines import get_baseline, list_baselines, set_baseline
from tare.store.database import Store
from tare.system.home import home
from tare.system.locks import FileLock


@dataclass(frozen=True)
class SpeedChange:
    """How the gross of a record differs from that of another one, beside an allowed slowdown `by`."""

    change: MetricChange
    by: float
    before: str
    processes: tuple[int, int]

    @property
    def is_slower(self) -> bool:
        """The change is certain, and larger than allowed."""
        return self.change.worse and self.change.ratio is not None and self.change.ratio > 1 + self.by

    @property
    def is_faster(self) -> bool:
        return self.change.verdict == "faster" and (self.change.ratio or 1.0) < 1 / (1 + self.by)

    @property
    def undecided(self) -> bool:
        return self.change.verdict == "undecided"

    def __str__(self) -> str:
        change, (before, now) = self.change, self.processes
        text = change_text(change.ratio, change.low, change.high)
        return (
            f"{text} against {self.before} ({now} fresh processes against {before}): {change.verdict}, where "
            f"{percent(self.by)} is allowed"
        )


def compare_speed(before: Record, now: Record, by: float, label: str) -> SpeedChange:
    """By the statistics of `tare compare`; BadInput where the two were not measured on the same machine."""
    if isinstance(by, bool) or not isinstance(by, int | float) or not 0 < by <= 1:
        raise BadInput(f"by is a share such as 0.05 (at most 1), not {quote(by)}")
    _, blocking = split_differences([(before.environment, now.environment)])
    refuse_differences(blocking, remedy="measure the baseline anew here: --tare-save")
    rules = Rules(make_thresholds({"threshold": by}, "by"), [METRICS[0]])
    tests = {now.case: run_tests(before, now, rules, were_interleaved(before, now), LEVEL / 2)}
    change = judge_tests(tests, LEVEL)[now.case][METRICS[0].name]
    return SpeedChange(change, by, label, (len(good_rounds(before)), len(good_rounds(now))))


def find_in_baseline(name: str, workload: str, store: str | None = None) -> dict[str, Record]:
    """The records of this workload in a baseline, by the family of their cases; none where there is no such
    baseline."""
    with Store(store) as opened:
        known = [baseline.name for baseline in list_baselines(opened)]
        records = get_baseline(opened, name) if name in known else []
    return {record.case.family: record for record in records if record.case.workload == workload}


def add_to_baseline(name: str, record: Record, store: str | None = None) -> None:
    """Adds a record of the store to a baseline, in place of that of the same family."""
    # Several processes of pytest may save to one baseline.
    with FileLock(home() / "baselines.lock") as lock, Store(store) as opened:
        lock.acquire()
        known = [baseline.name for baseline in list_baselines(opened)]
        kept = get_baseline(opened, name) if name in known else []
        set_baseline(opened, name, [each for each in kept if each.case.family != record.case.family] + [record])
