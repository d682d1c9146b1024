"""The ranks of a job: who waits, for whom, and where the critical path leads."""

from tare.report.numbers import percent, seconds, several
from tare.report.view import FittingTable, View
from tare.trace.job import RankJob

MAX_RANKS, MAX_DEEDS, MAX_PARTS = 64, 5, 8
WHERE = -60


def job_view(job: RankJob) -> View:
    spread = max(rank.clock_spread for rank in job.ranks)
    text = (
        f"{several(job.matched, 'collective')} matched across them; clocks aligned within {seconds(spread / 1e9)}"
    )
    view = View(f"one job of {several(len(job.ranks), 'rank')}", text)
    view.put(_ranks_table(job))
    if len(job.ranks) > MAX_RANKS:
        view.add(
            "faint", f"and {several(len(job.ranks) - MAX_RANKS, 'more rank')}, which made the others wait least"
        )
    _add_straggler(view, job)
    if job.imbalance >= 0.005:
        view.add("plain", f"imbalance: the busiest rank computes {percent(job.imbalance)} longer than the mean")
    view.put(_path_table(job))
    return view.add("note", *job.notes)


def _ranks_table(job: RankJob) -> FittingTable:
    """Shares of each rank's windows. All but the last two add up to 100 %."""
    parts = ("computing", "waiting", "transfer", "moving", "idle", "overlapped")
    shown = sorted(sorted(job.ranks, key=lambda rank: -rank.late)[:MAX_RANKS], key=lambda rank: rank.rank)
    rows = [
        {
            "rank": str(rank.rank),
            **{part: percent(getattr(rank, part) / rank.window) for part in parts},
            "came last": f"{rank.last} of {job.matched}",
        }
        for rank in shown
    ]
    return FittingTable(rows, folds={"rank": 0}, spare=("moving", "overlapped"))


def _add_straggler(view: View, job: RankJob) -> None:
    straggler = job.straggler
    if straggler is None:
        late = max(job.ranks, key=lambda rank: rank.late)
        if late.late:
            view.add("plain", f"no rank is the straggler: rank {late.rank} came late most, and others did too")
        elif job.matched:
            view.add("good", "no rank makes the others wait")
        return
    text = (
        f"rank {straggler.rank} is the straggler: it began {several(straggler.collectives, 'collective')} last, "
    )
    window = max(rank.window for rank in job.ranks)
    view.add("warning", f"{text}{percent(straggler.share)} of the time later than the others")
    for deed in straggler.did[:MAX_DEEDS]:
        view.add("plain", f"meanwhile, longer than the others: {percent(deed.ns / window)} {deed.what}")


def _path_table(job: RankJob) -> FittingTable:
    whole = sum(part.ns for part in job.critical)
    rows = [
        {
            "the critical path leads through": f"rank {part.rank}",
            "which does": part.what,
            "share": percent(part.ns / whole),
        }
        for part in job.critical[:MAX_PARTS]
    ]
    return FittingTable(rows, folds={"which does": 12}, cuts={"which does": WHERE})
