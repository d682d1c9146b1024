"""From a workload to its explanation: measured without a profiler, profiled in a round of its own, explained.

The one place where session, profiler, counter, peaks and trace meet. The CLI calls it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.plan import Plan
from tare.errors import BadInput, TareError
from tare.execute.ceilings import measure_peaks
from tare.execute.executor import LocalExecutor
from tare.execute.jobs import CountJob, ProfileJob
from tare.execute.launch import Launcher, SpawnLauncher
from tare.execute.protocol import Counted, Probed
from tare.execute.workshop import open_executor
from tare.findings.diagnosis import Diagnosis, diagnose
from tare.home import trace_paths
from tare.measure.peakstore import load_peaks, peaks_of_gpu, save_peaks
from tare.records.figures import gross
from tare.records.record import Failure, Record
from tare.records.work import Peaks, Work
from tare.report.progress import Progress
from tare.report.terminal import make_console
from tare.rungs import get_rung
from tare.rungs.native import NativeRung
from tare.session import Session, terminable
from tare.trace.explanation import About, Explanation, explain, on_one_floor, recorded_gross
from tare.trace.floor import find_floor
from tare.trace.group import Breakdowns, group
from tare.trace.read import read
from tare.trace.tables import Trace
from tare.trace.waterfall import Against, difference
from tare.workloads import get_workload

# What a rung's parity says where it computes what the others do, as far as anybody knows.
SAME = ("same", "unchecked")
ENDINGS = (".json", ".json.gz", ".pt.trace.json", ".pt.trace.json.gz")


class Explained(msgspec.Struct, kw_only=True):
    """All that was asked for. `failed` says why a case has no explanation."""

    explanations: list[Explanation]
    # Findings, tables and memory: one for each explanation, in the same order.
    diagnoses: list[Diagnosis]
    failed: dict[str, str] = {}
    against: list[Against] = []
    peaks: list[Peaks] = []
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if self.failed else 0

    @property
    def breakdowns(self) -> Breakdowns | None:
        """Side by side, where several workloads were explained on a device: a host alone has no such parts."""
        several = len({one.workload or one.title for one in self.explanations}) > 1
        made = group(self.explanations, self.failed) if several else None
        return made if made and made.bars else None

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"explanations": self.explanations, "diagnoses": self.diagnoses}
        fields |= {"failed": self.failed, "against": self.against}
        return fields | {"breakdowns": self.breakdowns, "peaks": self.peaks, "interrupted": self.interrupted}


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is to be explained."""

    # A rung that is also compared with the first other one of its ladder.
    against: str | None = None
    # Whether a second recording finds the lines of source that things come from.
    stacks: bool = True
    # Whether what an interrupted run has measured and profiled is taken over.
    resume: bool = False


def is_trace(target: str) -> bool:
    return target.endswith(ENDINGS)


def explain_files(paths: list[str], against: str | None = None) -> Explained:
    """Traces that somebody recorded. Their gross is what they say of it themselves, or unknown; the ceilings are
    those of a GPU of the name that they give, if any were measured.

    `against` is a later trace of what the only other one recorded."""
    found, diagnoses = [], []
    ceilings: dict[str, Peaks | None] = {}
    before: Trace | None = None
    with make_console(stderr=True).status("reading traces") as status:
        for path in (*paths, *([against] if against else [])):
            status.update(f"reading {path}")
            trace = read(Path(path))
            name = Path(path).name
            for ending in sorted(ENDINGS, key=len, reverse=True):
                name = name.removesuffix(ending)
            gross_ns = recorded_gross(trace)
            one = explain(trace, About(title=name, gross=gross_ns))
            if one.device not in ceilings:
                ceilings[one.device] = peaks_of_gpu(one.device) if one.device else None
            peaks = ceilings[one.device]
            diagnosis = diagnose(trace, gross_ns / 1e9 if gross_ns else None, peaks, before=before)
            found.append(_priced(one, diagnosis, peaks))
            diagnoses.append(diagnosis)
            before = trace if against else None
    differences = compare(found[0], found[-1]) if against else []
    known = [peaks for peaks in ceilings.values() if peaks]
    return Explained(explanations=found, diagnoses=diagnoses, against=differences, peaks=known)


def _priced(one: Explanation, diagnosis: Diagnosis, peaks: Peaks | None) -> Explanation:
    """Says by which ceilings the findings of a trace are priced: they need not be those of its machine."""
    if peaks is None or not diagnosis.findings:
        return one
    where = peaks.environment.circumstances.get("host", "an unnamed machine")
    note = f"prices by the peaks of the {one.device} of {where}, measured on {peaks.created[:10]} (tare peaks)"
    return msgspec.structs.replace(one, notes=[*one.notes, note])


def explain_plan(
    plan: Plan, options: dict[str, Any], quick: bool, store: str | None, show_progress: bool, wish: Wish
) -> Explained:
    """Measures the plan like `tare run`, then profiles each case once and explains it."""
    outcome = Session(plan, options, quick, store, show_progress).run(resume=wish.resume, fail_fast=False)
    if outcome.interrupted:
        return Explained(explanations=[], diagnoses=[], interrupted=True)
    with inquiry(show_progress) as (executor, probed, tell):
        return _Explaining(executor, probed, tell, wish).explain(outcome.records)


def find_peaks(device: str, rounds: int, show_progress: bool) -> Peaks:
    """Measures the ceilings of a device and keeps them."""
    with inquiry(show_progress) as (executor, probed, tell):
        chosen = probed.devices[0] if device == "auto" else device
        if chosen.partition(":")[0] not in probed.devices:
            raise BadInput(f"torch sees no {chosen} device here (there are: {', '.join(probed.devices)})")
        return _measure(executor, probed, chosen, rounds, tell)


@contextmanager
def inquiry(show_progress: bool) -> Iterator[tuple[LocalExecutor, Probed, Callable[[str], None]]]:
    """An executor for jobs that are no rounds, what the machine has, and who is told of progress."""
    with Progress(show_progress) as progress, open_executor("fork", progress.stage) as executor:
        yield executor, executor.probe(), progress.stage


class _Explaining:
    """Profiles the cases of a run one after the other. Ctrl-C and SIGTERM end it early with what is explained."""

    def __init__(self, executor: LocalExecutor, probed: Probed, tell: Callable[[str], None], wish: Wish) -> None:
        self._executor, self._probed, self._tell, self._wish = executor, probed, tell, wish
        self._made = Explained(explanations=[], diagnoses=[])
        # By ladder, the positions among the explanations: all, and those that compute what the reference does.
        self._rungs: dict[str, list[int]] = {}
        self._same: dict[str, list[int]] = {}
        self._counted: dict[str, Work | None] = {}
        self._peaks: dict[str, Peaks] = {}

    def explain(self, records: list[Record]) -> Explained:
        try:
            with terminable():
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
        if record.failure:
            self._made.failed[key] = f"{record.failure.cause}: {record.failure.message}"
            return
        try:
            explanation, diagnosis = self._explain(record)
        except TareError as error:
            self._made.failed[key] = str(error)
            return
        at = len(self._made.explanations)
        self._rungs.setdefault(record.case.ladder, []).append(at)
        if record.parity.status in SAME:
            self._same.setdefault(record.case.ladder, []).append(at)
        self._made.explanations.append(explanation)
        self._made.diagnoses.append(diagnosis)

    def _compare(self) -> None:
        """What takes several rungs: the floor on which they all stand, and what one removed of another."""
        made = self._made.explanations
        for rungs in self._same.values():
            for at, levelled in zip(rungs, on_one_floor([made[i] for i in rungs]), strict=True):
                made[at] = levelled
        for first, *others in self._rungs.values():
            for at in others:
                if made[at].rung == self._wish.against:
                    self._made.against += compare(made[first], made[at])

    def _explain(self, record: Record) -> tuple[Explanation, Diagnosis]:
        case = record.case
        peaks, work = self._peaks_of(case.device), self._work_of(case)
        self._tell(f"profiling {case.workload} {case.rung}")
        paths = profile_case(self._executor, case, record.id, self._wish.stacks, again=not self._wish.resume)
        trace, stacks = read(paths[0]), read(paths[1]) if self._wish.stacks else None
        floor = find_floor(work, peaks, case.precision, case.rung) if work else None
        found = explain(trace, _about(record), floor, stacks)
        if record.parity.status not in SAME:
            differs = f"this rung computes something else ({record.parity.status}): compare it with nothing"
            found = msgspec.structs.replace(found, notes=[differs, *found.notes])
        first = self._rungs.get(case.ladder) if case.rung == self._wish.against else None
        before = read(Path(self._made.explanations[first[0]].trace)) if first else None
        step = gross(record)
        return found, diagnose(trace, step.mid if step else None, peaks, stacks, before)

    def _peaks_of(self, device: str) -> Peaks:
        if device not in self._peaks:
            known = load_peaks(device, self._probed.environment)
            self._peaks[device] = known or _measure(self._executor, self._probed, device, 1, self._tell)
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


def profile_case(
    executor: LocalExecutor,
    case: Case,
    name: str,
    stacks: bool = True,
    launcher: Launcher | None = None,
    again: bool = True,
) -> tuple[Path, Path]:
    """Records a case's two traces, or the plain one alone, kept in TARE_HOME under the record's id; those that are
    there already only if `again`. `launcher` starts the workers of another version; each must be started anew."""
    rung = get_rung(case.rung)
    if isinstance(rung, NativeRung) and rung.is_executable(case):
        raise TareError(f"{case.rung} runs as an executable, which torch.profiler cannot see into")
    paths = trace_paths(name)
    wanted = paths if stacks else paths[:1]
    if not again and all(path.exists() for path in wanted):
        return paths
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    # A trace that was cut off must not look like one.
    partial = [path.with_name(f"partial-{path.name}") for path in wanted]
    cache = str(executor.cache_of(case))
    job = ProfileJob(case=case, trace=str(partial[0]), stacks=str(partial[1]) if stacks else None, cache=cache)
    # A forked process inherits what the profiler's library set up in its parent: this one is started anew.
    executor.inquire(job, Options(), case.device, launcher or SpawnLauncher())
    for path, written in zip(wanted, partial, strict=True):
        written.replace(path)
    return paths


def _count(executor: LocalExecutor, case: Case) -> Work | None:
    """The work of one step; None where it cannot be counted: then there is no floor, and the rest stands."""
    counted = executor.ask(CountJob(case=case), Counted, Options(), case.device)
    return None if isinstance(counted, Failure) else counted.work


def _measure(
    executor: LocalExecutor, probed: Probed, device: str, rounds: int, tell: Callable[[str], None]
) -> Peaks:
    peaks = measure_peaks(executor, device, probed.environment, rounds, lambda what: tell(f"peaks: {what}"))
    save_peaks(peaks)
    return peaks


def compare(one: Explanation, other: Explanation) -> list[Against]:
    """What the other step removed, cause by cause; nothing where a gross is unknown, for then no time is."""
    if one.waterfall.profiled or other.waterfall.profiled:
        return []
    names = [explanation.rung or explanation.title for explanation in (one, other)]
    return [Against(one=names[0], other=names[1], parts=difference(one.waterfall, other.waterfall))]
