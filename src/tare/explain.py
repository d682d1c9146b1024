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
from tare.measure.peakstore import load_peaks, save_peaks
from tare.records.figures import gross
from tare.records.record import Failure, Record
from tare.records.work import Peaks, Work
from tare.report.progress import Progress
from tare.report.terminal import make_console
from tare.rungs import get_rung
from tare.rungs.native import NativeRung
from tare.session import Outcome, Session
from tare.trace.explanation import About, Explanation, explain, recorded_gross
from tare.trace.floor import find_floor
from tare.trace.group import Breakdowns, group
from tare.trace.read import read
from tare.trace.tables import Trace
from tare.trace.waterfall import Against, difference
from tare.workloads import get_workload

ENDINGS = (".json", ".json.gz", ".pt.trace.json", ".pt.trace.json.gz")


class Explained(msgspec.Struct, kw_only=True):
    """All that was asked for. `failed` says why a case has no explanation."""

    explanations: list[Explanation]
    # Findings, tables and memory: one for each explanation, in the same order.
    diagnoses: list[Diagnosis]
    failed: dict[str, str] = {}
    against: list[Against] = []
    peaks: list[Peaks] = []

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 0

    @property
    def breakdowns(self) -> Breakdowns | None:
        """Side by side, where several workloads were explained."""
        several = len({one.workload or one.title for one in self.explanations}) > 1
        return group(self.explanations, self.failed) if several else None

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"explanations": self.explanations, "diagnoses": self.diagnoses}
        fields |= {"failed": self.failed, "against": self.against}
        return fields | {"breakdowns": self.breakdowns, "peaks": self.peaks}


def is_trace(target: str) -> bool:
    return target.endswith(ENDINGS)


def explain_files(paths: list[str], against: str | None = None) -> Explained:
    """Traces that somebody recorded. Their gross is what they say of it themselves, or unknown.

    `against` is a later trace of what the only other one recorded."""
    found, diagnoses = [], []
    before: Trace | None = None
    with make_console(stderr=True).status("reading traces") as status:
        for path in (*paths, *([against] if against else [])):
            status.update(f"reading {path}")
            trace = read(Path(path))
            name = Path(path).name
            for ending in sorted(ENDINGS, key=len, reverse=True):
                name = name.removesuffix(ending)
            gross_ns = recorded_gross(trace)
            found.append(explain(trace, About(title=name, gross=gross_ns)))
            diagnoses.append(diagnose(trace, gross_ns / 1e9 if gross_ns else None, before=before))
            before = trace if against else None
    differences = compare(found[0], found[-1]) if against else []
    return Explained(explanations=found, diagnoses=diagnoses, against=differences)


def explain_plan(
    plan: Plan,
    options: dict[str, Any],
    quick: bool,
    store: str | None,
    show_progress: bool,
    against: str | None = None,
) -> Explained:
    """Measures the plan like `tare run`, then profiles each case once and explains it.

    `against` is a rung that is also compared with the first other one of its ladder."""
    outcome = Session(plan, options, quick, store, show_progress).run(resume=False, fail_fast=False)
    if outcome.interrupted:
        raise TareError("interrupted before anything was profiled")
    with inquiry(show_progress) as (executor, probed, tell):
        return _explain_all(outcome, executor, probed, tell, against)


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


def _explain_all(
    outcome: Outcome, executor: LocalExecutor, probed: Probed, tell: Callable[[str], None], against: str | None
) -> Explained:
    found: list[tuple[Explanation, Diagnosis]] = []
    first: dict[str, Explanation] = {}
    differences: list[Against] = []
    failed: dict[str, str] = {}
    counted: dict[str, Work | None] = {}
    peaks: dict[str, Peaks] = {}
    # What is compared comes last, when there is something to compare it with.
    for record in sorted(outcome.records, key=lambda record: record.case.rung == against):
        case = record.case
        if record.failure:
            failed[case.key] = f"{record.failure.cause}: {record.failure.message}"
            continue
        try:
            if case.device not in peaks:
                known = load_peaks(case.device, probed.environment)
                peaks[case.device] = known or _measure(executor, probed, case.device, 1, tell)
            if case.ladder not in counted:
                tell(f"counting {case.workload}")
                counted[case.ladder] = _count(executor, case)
            tell(f"profiling {case.workload} {case.rung}")
            one = first.get(case.ladder) if case.rung == against else None
            work, before = counted[case.ladder], Path(one.trace) if one else None
            found.append(_explain_one(executor, record, work, peaks[case.device], before))
            first.setdefault(case.ladder, found[-1][0])
            if one:
                differences += compare(one, found[-1][0])
        except TareError as error:
            failed[case.key] = str(error)
    explanations, diagnoses = [one for one, _ in found], [other for _, other in found]
    measured = list(peaks.values())
    return Explained(
        explanations=explanations, diagnoses=diagnoses, failed=failed, against=differences, peaks=measured
    )


def _explain_one(
    executor: LocalExecutor, record: Record, work: Work | None, peaks: Peaks, before: Path | None
) -> tuple[Explanation, Diagnosis]:
    case = record.case
    trace, stacks = (read(path) for path in profile_case(executor, case, record.id))
    step = gross(record)
    about = About(
        title=f"{case.workload} {case.mode} {case.precision} batch {case.batch} on {case.rung}",
        gross=round(step.mid * 1e9) if step else None,
        case=case.key,
        workload=case.workload,
        mode=case.mode,
        domain=get_workload(case.workload).domain,
        rung=case.rung,
    )
    floor = find_floor(work, peaks, case.precision, case.rung) if work else None
    found = explain(trace, about, floor, stacks)
    if record.parity.status not in ("same", "unchecked"):
        differs = f"this rung computes something else ({record.parity.status}): compare it with nothing"
        found = msgspec.structs.replace(found, notes=[differs, *found.notes])
    return found, diagnose(trace, step.mid if step else None, peaks, stacks, read(before) if before else None)


def profile_case(
    executor: LocalExecutor, case: Case, name: str, stacks: bool = True, launcher: Launcher | None = None
) -> tuple[Path, Path]:
    """Records a case's two traces, or the plain one alone, kept in TARE_HOME under the record's id. `launcher`
    starts the workers of another version; each must be started anew."""
    rung = get_rung(case.rung)
    if isinstance(rung, NativeRung) and rung.is_executable(case):
        raise TareError(f"{case.rung} runs as an executable, which torch.profiler cannot see into")
    paths = trace_paths(name)
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    # A forked process inherits what the profiler's library set up in its parent: this one is started anew.
    with_stacks = str(paths[1]) if stacks else None
    job = ProfileJob(case=case, trace=str(paths[0]), stacks=with_stacks, cache=str(executor.cache_of(case)))
    executor.inquire(job, Options(), case.device, launcher or SpawnLauncher())
    return paths


def _count(executor: LocalExecutor, case: Case) -> Work | None:
    """The work of one step; None where it cannot be counted: then there is no floor, and the rest stands."""
    counted = executor.ask(CountJob(case=case), Counted, Options(), case.device)
    return None if isinstance(counted, Failure) else counted.work


def _measure(
    executor: LocalExecutor, probed: Probed, device: str, rounds: int, tell: Callable[[str], None]
) -> Peaks:
    peaks = measure_peaks(executor, device, probed.environment, rounds, lambda what: tell(f"ceilings: {what}"))
    save_peaks(peaks)
    return peaks


def compare(one: Explanation, other: Explanation) -> list[Against]:
    """What the other step removed, cause by cause; nothing where a gross is unknown, for then no time is."""
    if one.waterfall.profiled or other.waterfall.profiled:
        return []
    names = [explanation.rung or explanation.title for explanation in (one, other)]
    return [Against(one=names[0], other=names[1], parts=difference(one.waterfall, other.waterfall))]
