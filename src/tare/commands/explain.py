"""From workloads or trace files to their explanations.

A workload is measured without a profiler and profiled in a round of its own; a trace file is explained as it is.
This is the one place where session, profiler, work counter, peaks and trace meet.
"""

from pathlib import Path

import msgspec
from rich.text import Text

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.plan import Skip
from tare.commands.ranks import explain_ranks, read_job, read_trace
from tare.commands.run import Session
from tare.commands.traces import profile_case
from tare.errors import BadInput, TareError
from tare.execute.executor import LocalExecutor
from tare.execute.peaks import measure_peaks
from tare.findings.diagnosis import Diagnosis, diagnose
from tare.findings.explained import ExplainedRecord
from tare.measure.peak_store import load_peaks, peaks_of_gpu, save_peaks
from tare.protocol.jobs import ProfileJob
from tare.protocol.messages import Probed, Profiled
from tare.records.figures import gross
from tare.records.record import COMPARABLE, Failure, Record
from tare.records.work import Peaks, Work
from tare.report.explain import ExplainReport
from tare.report.terminal import make_console
from tare.store.database import Store
from tare.store.explanations import keep_explanation
from tare.system.processes import interruptible
from tare.trace.explanation import About, Explanation, explain, share_roofline
from tare.trace.formats import trace_endings
from tare.trace.job import RankJob
from tare.trace.metadata import RecordingInfo, device_name, recorded_gross, recording_info
from tare.trace.read import read
from tare.trace.roofline import compute_roofline
from tare.trace.tables import Trace
from tare.trace.waterfall import WaterfallDifference, waterfall_difference
from tare.trace.windows import select_steps
from tare.workloads import all_workloads


class ExplainOptions(msgspec.Struct, frozen=True, kw_only=True):
    # A rung that is also compared with the first other one of its ladder, if both compute the same.
    against: str | None = None
    # Whether a second recording finds the source lines.
    stacks: bool = True
    # Whether to reuse what an interrupted run has measured and profiled.
    resume: bool = False
    # Whether to reuse what any earlier run has measured in a comparable environment, with its traces.
    recorded: bool = False


def explain_plan(session: Session, options: ExplainOptions) -> ExplainReport:
    """Measures the plan like `tare run`, or the part of it that is not recorded yet; then profiles and explains
    each case."""
    with session.measured(options.resume, recorded=options.recorded) as (run, opened):
        if run.interrupted:
            return ExplainReport(explanations=[], diagnoses=[], recorded=run.recorded, interrupted=True)
        explainer = Explainer(opened.executor, opened.probed, options)
        report = explainer.explain(run.records)
        report.recorded, report.skipped = run.recorded, [*run.skipped, *report.skipped]
        with Store(session.store) as store:
            for record, explanation, diagnosis in zip(
                explainer.explained, report.explanations, report.diagnoses, strict=True
            ):
                document = ExplainedRecord(explanation=explanation, diagnosis=diagnosis).encode()
                keep_explanation(store, record.id, document)
        return report


class Explainer:
    """Profiles the cases of a run one after the other. Ctrl-C and SIGTERM end it early with what is explained."""

    def __init__(self, executor: LocalExecutor, probed: Probed, options: ExplainOptions) -> None:
        self._executor, self._probed, self._options = executor, probed, options
        self._report = ExplainReport(explanations=[], diagnoses=[])
        # The records of the explanations, in their order.
        self.explained: list[Record] = []
        # By ladder, the positions among the explanations of those that compute what the reference computes. Only
        # these are compared.
        self._comparable: dict[str, list[int]] = {}
        self._counted: dict[str, Work | None] = {}
        self._peaks: dict[tuple[str, int | None], Peaks] = {}

    def explain(self, records: list[Record]) -> ExplainReport:
        try:
            with interruptible():
                # The compared rung comes last, when there is something to compare it with.
                for record in sorted(records, key=lambda record: record.case.rung == self._options.against):
                    self._try(record)
        except KeyboardInterrupt:
            self._report.interrupted = True
        self._compare()
        self._report.peaks = list(self._peaks.values())
        return self._report

    def _try(self, record: Record) -> None:
        key = record.case.key
        if record.failure and not record.refused:
            self._report.failed[key] = f"{record.failure.cause}: {record.failure.message}"
            return
        if record.failure:
            self._report.skipped.append(Skip(key, "unsupported", record.failure.message))
            return
        try:
            explanation, diagnosis = self._explain(record)
        except TareError as error:
            self._report.failed[key] = str(error)
            return
        if record.parity.status in COMPARABLE:
            position = len(self._report.explanations)
            self._comparable.setdefault(record.case.ladder, []).append(position)
        self.explained.append(record)
        self._report.explanations.append(explanation)
        self._report.diagnoses.append(diagnosis)

    def _compare(self) -> None:
        """Gives the rungs of each ladder one roofline, and computes what one rung removed of another."""
        explanations = self._report.explanations
        for positions in self._comparable.values():
            shared = share_roofline([explanations[i] for i in positions])
            for position, explanation in zip(positions, shared, strict=True):
                explanations[position] = explanation
            for explanation in shared[1:]:
                if explanation.rung == self._options.against:
                    self._report.against += compare(shared[0], explanation)

    def _explain(self, record: Record) -> tuple[Explanation, Diagnosis]:
        case, status, step = record.case, record.parity.status, gross(record)
        gross_ns = round(step.mid * 1e9) if step else None
        peaks = self._peaks_of(case)
        self._executor.on_stage(f"profiling {case.workload} {case.rung}")
        again, count = not (self._options.resume or self._options.recorded), case.ladder not in self._counted
        plain, with_stacks = profile_case(
            self._executor, case, record.id, self._options.stacks, again=again, count=count, gross_ns=gross_ns
        )
        trace, stacks = read(plain), read(with_stacks) if self._options.stacks else None
        before = None
        if case.rung == self._options.against and status in COMPARABLE and case.ladder in self._comparable:
            before = read(Path(self._report.explanations[self._comparable[case.ladder][0]].trace))
        title = f"{case.workload} {case.mode} {case.precision} batch {case.batch} on {case.rung}"
        work = self._work_of(case, recording_info(trace))
        explanation, diagnosis = explain_trace(trace, title, peaks, gross_ns, work, stacks, before)
        if status not in COMPARABLE:
            note = f"this rung computes something else ({status}): compare it with nothing"
            explanation = msgspec.structs.replace(explanation, notes=[note, *explanation.notes], differs=status)
        return explanation, diagnosis

    def _peaks_of(self, case: Case) -> Peaks:
        """Measured on a busy machine they carry a caveat, and are not kept."""
        device, threads = case.device, case.threads if case.device_type == "cpu" else None
        environment = self._probed.environment
        peaks = self._peaks.get((device, threads)) or load_peaks(device, environment, threads)
        if peaks is None:
            peaks = measure_peaks(self._executor, device, environment, 1, threads)
            if not peaks.caveats:
                save_peaks(peaks)
        self._peaks[device, threads] = peaks
        return peaks

    def _work_of(self, case: Case, info: RecordingInfo | None) -> Work | None:
        """The work of one step, the same on every rung; None where it cannot be counted: then there is only no
        roofline. Eager's is counted by the process that profiles it."""
        if info and info.work:
            self._counted[case.ladder] = info.work
        if case.ladder not in self._counted:
            self._executor.on_stage(f"counting {case.workload}")
            # Every rung computes the same; it is counted on eager, which hides no operator.
            job = ProfileJob(case=msgspec.structs.replace(case, rung="eager"), count=True)
            counted = self._executor.ask(job, Profiled, Options())
            self._counted[case.ladder] = None if isinstance(counted, Failure) else counted.work
        return self._counted[case.ladder]


def explain_trace(
    trace: Trace,
    title: str,
    peaks: Peaks | None,
    gross_ns: int | None = None,
    work: Work | None = None,
    stacks: Trace | None = None,
    before: Trace | None = None,
) -> tuple[Explanation, Diagnosis]:
    """What is not given is what a trace of tare's own states about itself: its case, its gross and its work."""
    # Once for both, so that they share what is known of the trace.
    trace = select_steps(trace)
    gross_ns = gross_ns or recorded_gross(trace)
    about, roofline = About(title=title, gross=gross_ns), None
    info = recording_info(trace)
    if info is not None:
        workload = all_workloads().get(info.workload)
        fields = {name: getattr(info, name) for name in ("case", "workload", "mode", "rung")}
        about = msgspec.structs.replace(about, domain=workload.domain if workload else None, **fields)
        work = work or info.work
        roofline = compute_roofline(work, peaks, info.precision, info.rung) if work and peaks else None
    diagnosis = diagnose(trace, gross_ns / 1e9 if gross_ns else None, peaks, stacks, before)
    return explain(trace, about, roofline, stacks), diagnosis


def explain_files(paths: list[str], against: str | None = None) -> ExplainReport:
    """Explains trace files without measuring. Gross is what a trace states, or unknown; the peaks are those
    measured on a GPU of the name that the trace states, if any. `against` is a later trace to compare with the
    only other one."""
    explanations: list[Explanation] = []
    diagnoses = []
    used_peaks: dict[str, Peaks] = {}
    before: Trace | None = None
    job: RankJob | None = None
    failed: dict[str, str] = {}
    with make_console(stderr=True).status("reading traces") as status:
        files = [*paths, *([against] if against else [])]
        ranks, ready, broken = read_job(
            [] if against else paths, lambda path: status.update(Text(f"reading {path}"))
        )
        if ranks:
            status.update(f"matching the collectives of {len(ranks)} ranks")
            job, shown = explain_ranks(ranks)
            failed |= broken
            # Of the ranks one is explained in full: the one that the others wait for.
            files, ready = [shown.source], {shown.source: shown}
        titles = _titles(files) if job is None else [f"rank {job.shown}"]
        for path, title in zip(files, titles, strict=True):
            if path in broken:
                failed[path] = broken[path]
                continue
            status.update(Text(f"reading {path}"))
            try:
                trace = ready.pop(path) if path in ready else read_trace(path)
                gpu = device_name(trace)
                peaks = peaks_of_gpu(gpu) if gpu else None
                explanation, diagnosis = explain_trace(trace, title, peaks, before=before)
            except BadInput as error:
                # Of several traces the others are explained.
                if len(files) == 1 or against:
                    raise
                failed[path] = str(error)
                continue
            used_peaks |= {gpu: peaks} if peaks else {}
            if peaks and (diagnosis.findings or explanation.roofline):
                explanation = _with_note(explanation, _peaks_note(peaks, gpu))
            explanations.append(explanation)
            diagnoses.append(diagnosis)
            before = trace if against else None
    if not explanations:
        raise BadInput("; ".join(failed.values()))
    differences = compare(explanations[0], explanations[-1]) if against else []
    if against and not differences:
        unknown = " and ".join(explanation.title for explanation in explanations if explanation.waterfall.profiled)
        note = f"what was removed is not shown: gross is not known of {unknown} (tare diff compares)"
        explanations[-1] = _with_note(explanations[-1], note)
    peaks_list = list(used_peaks.values())
    return ExplainReport(
        explanations=explanations,
        diagnoses=diagnoses,
        failed=failed,
        against=differences,
        peaks=peaks_list,
        job=job,
    )


def compare(first: Explanation, other: Explanation) -> list[WaterfallDifference]:
    """What the other step removed, segment by segment; nothing where a gross is unknown."""
    if first.waterfall.profiled or other.waterfall.profiled:
        return []
    parts = waterfall_difference(first.waterfall, other.waterfall)
    return [WaterfallDifference(first=first.rung or first.title, other=other.rung or other.title, parts=parts)]


def _titles(paths: list[str]) -> list[str]:
    """The names of the files without their endings; with their folders where two have the same name, as ranks
    do."""
    names = [_without_ending(Path(path).name) for path in paths]
    return [
        name if names.count(name) == 1 else str(Path(path).parent / name)
        for path, name in zip(paths, names, strict=True)
    ]


def _without_ending(name: str) -> str:
    ending = max((ending for ending in trace_endings() if name.endswith(ending)), key=len, default="")
    return name.removesuffix(ending).removesuffix(".pt.trace")


def _with_note(explanation: Explanation, note: str) -> Explanation:
    return msgspec.structs.replace(explanation, notes=[*explanation.notes, note])


def _peaks_note(peaks: Peaks, gpu: str) -> str:
    """The peaks need not be those of the machine that recorded the trace."""
    host = peaks.environment.circumstances.get("host", "an unnamed machine")
    return f"savings by the peaks of the {gpu} of {host}, measured on {peaks.created[:10]} (tare peaks)"
