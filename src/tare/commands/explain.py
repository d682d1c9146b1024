"""From a workload to its explanation: measured without a profiler, profiled in a round of its own, explained.

The one place where session, profiler, counter, peaks and trace meet. The CLI calls it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.cases.options import Options
from tare.cases.plan import Plan
from tare.commands.explained import SAME, Explained, compare
from tare.commands.peaks import measure_and_keep
from tare.commands.run import Session
from tare.commands.traces import profile_case, unseen
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.findings.diagnosis import Diagnosis, diagnose
from tare.measure.peak_store import load_peaks
from tare.protocol.jobs import CountJob
from tare.protocol.messages import Counted, Probed
from tare.records.figures import gross
from tare.records.record import Failure, Record
from tare.records.work import Peaks, Work
from tare.store.run_lock import RunLocks
from tare.system.processes import interruptible
from tare.trace.explanation import About, Explanation, explain, share_roofline
from tare.trace.read import read
from tare.trace.roofline import compute_roofline
from tare.workloads import get_workload


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is to be explained."""

    # A rung that is also compared with the first other one of its ladder, if both compute the same.
    against: str | None = None
    # Whether a second recording finds the lines of source that things come from.
    stacks: bool = True
    # Whether what an interrupted run has measured and profiled is taken over.
    resume: bool = False
    # Whether what any earlier run has measured in an environment like this one is, with the traces kept of it.
    recorded: bool = False


def explain_plan(
    plan: Plan, options: dict[str, Any], quick: bool, store: str | None, show_progress: bool, wish: Wish
) -> Explained:
    """Measures the plan like `tare run`, or what of it is not recorded yet; then profiles each case once and
    explains it."""
    session = Session(plan, options, quick, store, show_progress, unwanted=unseen)
    with (
        RunLocks() as run_locks,
        session.measured(wish.resume, False, run_locks, wish.recorded) as (run, executor, probed, tell),
    ):
        if run.interrupted:
            return Explained(explanations=[], diagnoses=[], recorded=run.recorded, interrupted=True)
        made = _Explaining(executor, probed, tell, wish).explain(run.records)
        made.recorded, made.skipped = run.recorded, [*run.skipped, *made.skipped]
        return made


class _Explaining:
    """Profiles the cases of a run one after the other. Ctrl-C and SIGTERM end it early with what is explained."""

    def __init__(self, executor: LocalExecutor, probed: Probed, tell: Callable[[str], None], wish: Wish) -> None:
        self._executor, self._probed, self._tell, self._wish = executor, probed, tell, wish
        self._made = Explained(explanations=[], diagnoses=[])
        # By ladder, the positions among the explanations of those that compute what the reference does: nothing
        # else is compared with anything.
        self._same: dict[str, list[int]] = {}
        self._counted: dict[str, Work | None] = {}
        self._peaks: dict[str, Peaks] = {}

    def explain(self, records: list[Record]) -> Explained:
        try:
            with interruptible():
                # What is compared comes last, when there is something to compare it with.
                for record in sorted(records, key=lambda record: record.case.rung == self._wish.against):
                    self._try(record)
        except KeyboardInterrupt:
            self._made.interrupted = True
        self._compare()
        self._made.peaks = list(self._peaks.values())
        return self._made

    def _try(self, record: Record) -> None:
        key = record.case.key
        if record.failure and not record.refused:
            self._made.failed[key] = f"{record.failure.cause}: {record.failure.message}"
            return
        if record.failure:
            self._made.skipped.append(Skip(key, "unsupported", record.failure.message))
            return
        try:
            explanation, diagnosis = self._explain(record)
        except TareError as error:
            self._made.failed[key] = str(error)
            return
        at = len(self._made.explanations)
        if record.parity.status in SAME:
            self._same.setdefault(record.case.ladder, []).append(at)
        self._made.explanations.append(explanation)
        self._made.diagnoses.append(diagnosis)

    def _compare(self) -> None:
        """What takes several rungs: the roofline on which they all stand, and what one removed of another."""
        made = self._made.explanations
        for rungs in self._same.values():
            for at, levelled in zip(rungs, share_roofline([made[i] for i in rungs]), strict=True):
                made[at] = levelled
            first, *others = rungs
            for at in others:
                if made[at].rung == self._wish.against:
                    self._made.against += compare(made[first], made[at])

    def _explain(self, record: Record) -> tuple[Explanation, Diagnosis]:
        case = record.case
        peaks = self._peaks_of(case.device)
        self._tell(f"profiling {case.workload} {case.rung}")
        again = not (self._wish.resume or self._wish.recorded)
        about, uncounted = _about(record), case.ladder not in self._counted
        profile = profile_case(
            self._executor, case, record.id, self._wish.stacks, again=again, count=uncounted, gross_ns=about.gross
        )
        if profile.work:
            self._counted[case.ladder] = profile.work
        trace, stacks = read(profile.trace), read(profile.stacks) if self._wish.stacks else None
        work = self._work_of(case)
        roofline = compute_roofline(work, peaks, case.precision, case.rung) if work else None
        found = explain(trace, about, roofline, stacks)
        if record.parity.status not in SAME:
            differs = f"this rung computes something else ({record.parity.status}): compare it with nothing"
            found = msgspec.structs.replace(found, notes=[differs, *found.notes], differs=record.parity.status)
        compared = case.rung == self._wish.against and record.parity.status in SAME
        first = self._same.get(case.ladder) if compared else None
        before = read(Path(self._made.explanations[first[0]].trace)) if first else None
        return found, diagnose(trace, about.gross / 1e9 if about.gross else None, peaks, stacks, before)

    def _peaks_of(self, device: str) -> Peaks:
        if device not in self._peaks:
            known = load_peaks(device, self._probed.environment)
            self._peaks[device] = known or measure_and_keep(self._executor, self._probed, device, 1, self._tell)
        return self._peaks[device]

    def _work_of(self, case: Case) -> Work | None:
        if case.ladder not in self._counted:
            self._tell(f"counting {case.workload}")
            self._counted[case.ladder] = _count(self._executor, case)
        return self._counted[case.ladder]


def _about(record: Record) -> About:
    case, step = record.case, gross(record)
    return About(
        title=f"{case.workload} {case.mode} {case.precision} batch {case.batch} on {case.rung}",
        gross=round(step.mid * 1e9) if step else None,
        case=case.key,
        workload=case.workload,
        mode=case.mode,
        domain=get_workload(case.workload).domain,
        rung=case.rung,
    )


def _count(executor: LocalExecutor, case: Case) -> Work | None:
    """The work of one step; None where it cannot be counted: then there is no roofline, and the rest stands."""
    counted = executor.ask(CountJob(case=case), Counted, Options(), case.device)
    return None if isinstance(counted, Failure) else counted.work
