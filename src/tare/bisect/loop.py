"""The bisection itself: the search names a candidate, which is built and run, until the search has a verdict."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tare.bisect.command import CandidateFailed
from tare.bisect.culprit_changes import culprit_changes
from tare.bisect.journal import BisectJournal, CandidateRun, JournalEntry, SkippedCandidate
from tare.bisect.measure import measure_candidate
from tare.bisect.spec import BisectSpec
from tare.bisect.workspaces import Workspaces
from tare.errors import BadInput
from tare.records.environment import Environment
from tare.stats.search import CandidateSearch, Culprit, ExactSearch, Search, SearchVerdict
from tare.system.processes import interruptible

# A run may fail by chance; a candidate is skipped if it fails twice.
ATTEMPTS = 2
MAX_PROBABLE = 5


class FoundCulprit(msgspec.Struct, kw_only=True):
    """`suspects` holds more than one label where candidates between parent and culprit could not be measured."""

    culprit: str
    title: str
    parent: str
    suspects: list[str]
    probability: float
    # None where the parent's figure is zero.
    ratio: float | None
    low: float | None
    high: float | None
    before: float
    after: float
    runs: tuple[int, int]
    # What differs between the two: figures, calls, environment, packages, files.
    changes: list[str] = []


class BisectResult(msgspec.Struct, kw_only=True):
    verdict: SearchVerdict
    good: str
    bad: str
    # The bad end over the good end.
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    candidates: int
    runs: int
    measured: dict[str, int]
    culprits: list[FoundCulprit]
    # The labels with which a change most probably entered, where the verdict is "undecided".
    probable: dict[str, float] = {}
    skipped: list[SkippedCandidate]
    journal: str
    noise: float | None = None
    # What the order of the runs was drawn from; a count has no order to draw.
    seed: int | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 0 if self.verdict == "found" else 1

    def document(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))


def bisect(
    spec: BisectSpec,
    folder: Path,
    machine: Environment,
    resume: bool = False,
    confidence: float = 0.95,
    max_runs: int | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> BisectResult:
    """Searches until a verdict. Ctrl-C ends it with what is known; `resume` continues from the journal."""
    search: CandidateSearch
    workspaces = Workspaces(spec, folder / "workspaces", notify)
    with BisectJournal(folder, spec, machine, resume) as journal, interruptible():
        if spec.is_count:
            search = ExactSearch(spec.last, max_runs)
        else:
            search = Search(spec.last, confidence, max_runs, journal.seed)
        for entry in journal.entries:
            # The search draws the order of its runs again, by which it knows which of them are pairs.
            search.next()
            _add(search, entry)
        verdict: SearchVerdict | None = None
        with contextlib.suppress(KeyboardInterrupt):
            while isinstance(step := search.next(), int):
                entry = _attempt(spec, step, workspaces)
                journal.add(entry)
                _add(search, entry)
                notify(_progress_text(spec, search, entry))
            verdict = step
        return _result(spec, search, journal, workspaces, verdict)


def _add(search: CandidateSearch, entry: JournalEntry) -> None:
    if isinstance(entry, CandidateRun):
        search.add(entry.candidate, entry.value)
    else:
        search.skip(entry.candidate)


def _attempt(spec: BisectSpec, candidate: int, workspaces: Workspaces) -> JournalEntry:
    label, reason = spec.candidates[candidate].label, ""
    try:
        workspace = workspaces.get(candidate)
    except (CandidateFailed, BadInput, OSError) as error:
        return SkippedCandidate(candidate=candidate, label=label, stage="build", reason=_one_line(error))
    for _ in range(ATTEMPTS):
        try:
            return measure_candidate(spec, candidate, workspace)
        except CandidateFailed as error:
            reason = _one_line(error)
    return SkippedCandidate(candidate=candidate, label=label, stage="run", reason=reason)


def _progress_text(spec: BisectSpec, search: CandidateSearch, entry: JournalEntry) -> str:
    if isinstance(entry, SkippedCandidate):
        return f"{_short(entry.label)} skipped, cannot {entry.stage}: {entry.reason[:200]}"
    text = f"run {search.spent}: {_short(entry.label)} {entry.value:.4g}"
    probabilities = search.state().probabilities
    if len(search.runs) < 3 or not probabilities:
        return text
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    return f"{text}; most suspect so far: {_short(spec.candidates[best].label)} at {probabilities[best]:.0%}"


def _result(
    spec: BisectSpec,
    search: CandidateSearch,
    journal: BisectJournal,
    workspaces: Workspaces,
    verdict: SearchVerdict | None,
) -> BisectResult:
    """`verdict` is None if the search was interrupted."""
    labels = [candidate.label for candidate in spec.candidates]
    runs: dict[int, list[CandidateRun]] = {}
    for entry in journal.entries:
        if isinstance(entry, CandidateRun) and entry.candidate not in search.skipped:
            runs.setdefault(entry.candidate, []).append(entry)
    state = search.state()
    result = BisectResult(
        verdict=verdict or "undecided",
        good=labels[0],
        bad=labels[-1],
        **(state.ratio.ratio_fields() if state.ratio else {}),
        candidates=len(labels),
        runs=sum(map(len, runs.values())),
        measured={labels[candidate]: len(runs[candidate]) for candidate in sorted(runs)},
        culprits=[],
        skipped=[entry for entry in journal.entries if isinstance(entry, SkippedCandidate)],
        journal=str(journal.path),
        seed=None if spec.is_count else journal.seed,
        interrupted=verdict is None,
    )
    if result.verdict in ("found", "undecided"):
        result.culprits = [_describe(spec, culprit, runs, workspaces) for culprit in state.culprits]
        result.noise = state.noise
    if result.verdict == "undecided":
        ranked = sorted(zip(state.probabilities, labels, strict=False), key=lambda each: -each[0])[:MAX_PROBABLE]
        result.probable = {label: probability for probability, label in ranked if probability > 0.01}
    return result


def _describe(
    spec: BisectSpec, culprit: Culprit, runs: dict[int, list[CandidateRun]], workspaces: Workspaces
) -> FoundCulprit:
    before, after = runs[culprit.parent], runs[culprit.culprit]
    candidate = spec.candidates[culprit.culprit]
    try:
        built = workspaces.get(culprit.parent), workspaces.get(culprit.culprit)
        changes = culprit_changes(spec, before, after, built)
    except (CandidateFailed, BadInput, OSError) as error:
        # The workspaces may have been deleted since; the culprit is known all the same.
        changes = [f"unknown, for its workspace is gone: {_one_line(error)}"]
    return FoundCulprit(
        culprit=candidate.label,
        title=candidate.title,
        parent=spec.candidates[culprit.parent].label,
        suspects=[spec.candidates[c].label for c in culprit.suspects],
        probability=culprit.probability,
        **culprit.ratio.ratio_fields(),
        before=median(run.value for run in before),
        after=median(run.value for run in after),
        runs=(len(before), len(after)),
        changes=changes,
    )


def _short(label: str) -> str:
    return label[:12] if len(label) == 40 else label[:60]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
