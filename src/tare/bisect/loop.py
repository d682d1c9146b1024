"""The bisection itself: the search says which candidate to run, this builds and runs it and tells the search."""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tare.bisect.journal import BisectJournal, Entry, Run, Skipped
from tare.bisect.measure import measure
from tare.bisect.outcome import Found, Outcome
from tare.bisect.package_changes import what_changed
from tare.bisect.spec import Spec
from tare.bisect.worktrees import CannotRun, Place, Places
from tare.errors import BadInput
from tare.guard.metrics import get_metric
from tare.records.environment import Environment
from tare.stats.exact_search import ExactSearch
from tare.stats.search import Culprit, Search, Verdict

# A run that fails may have had bad luck; one that fails twice has not.
TRIES = 2
MOST_PROBABLE = 5

AnySearch = Search | ExactSearch


def bisect(
    spec: Spec,
    folder: Path,
    resume: bool = False,
    confidence: float = 0.95,
    most_runs: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    here: Environment | None = None,
) -> Outcome:
    """Searches until it is sure, or cannot be. Ctrl-C ends it with what is known; --resume goes on, where `here`
    is the machine that it began on."""
    search = _search(spec, confidence, most_runs)
    places = Places(spec, folder / "places", tell)
    with BisectJournal(folder, spec, resume, here) as journal:
        for entry in journal.entries:
            _take(search, entry)
        interrupted = False
        verdict: Verdict = "undecided"
        try:
            while isinstance(step := search.next(), int):
                entry = _attempt(spec, step, places)
                journal.add(entry)
                _take(search, entry)
                tell(_told(spec, search, entry))
            verdict = step
        except KeyboardInterrupt:
            interrupted = True
        return _outcome(spec, search, journal, places, verdict, interrupted)


def _search(spec: Spec, confidence: float, most_runs: int | None) -> AnySearch:
    """A count needs no statistics."""
    if spec.case and get_metric(spec.metric).exact:
        return ExactSearch(spec.last, most_runs)
    return Search(spec.last, confidence, most_runs)


def _take(search: AnySearch, entry: Entry) -> None:
    if isinstance(entry, Run):
        search.add(entry.candidate, entry.value)
    else:
        search.skip(entry.candidate)


def _attempt(spec: Spec, candidate: int, places: Places) -> Entry:
    label = spec.candidates[candidate].label
    try:
        place = places.get(candidate)
    except (CannotRun, BadInput, OSError) as error:
        return Skipped(candidate=candidate, label=label, stage="build", reason=_line(error))
    for left in reversed(range(TRIES)):
        try:
            return measure(spec, candidate, place)
        except CannotRun as error:
            if not left:
                return Skipped(candidate=candidate, label=label, stage="run", reason=_line(error))
    raise AssertionError("unreachable")


def _told(spec: Spec, search: AnySearch, entry: Entry) -> str:
    if isinstance(entry, Skipped):
        return f"{_short(entry.label)} skipped, cannot {entry.stage}: {entry.reason[:200]}"
    text = f"run {search.spent}: {_short(entry.label)} {entry.value:.4g}"
    chances = search.state().probabilities
    if len(search.runs) < 3 or not chances:
        return text
    best = max(range(len(chances)), key=chances.__getitem__)
    return f"{text}; most suspect so far: {_short(spec.candidates[best].label)} at {chances[best]:.0%}"


def _outcome(
    spec: Spec, search: AnySearch, journal: BisectJournal, places: Places, verdict: Verdict, interrupted: bool
) -> Outcome:
    runs: dict[int, list[Run]] = {}
    for entry in journal.entries:
        if isinstance(entry, Run) and entry.candidate not in search.skipped:
            runs.setdefault(entry.candidate, []).append(entry)
    state = search.state()
    whole, sound = state.whole, state.whole is not None and state.whole.sound
    known = verdict in ("found", "undecided")
    return Outcome(
        verdict=verdict,
        kind=spec.kind,
        good=spec.candidates[0].label,
        bad=spec.candidates[-1].label,
        ratio=_finite(whole.mid) if whole else None,
        low=_finite(whole.low) if whole and sound else None,
        high=_finite(whole.high) if whole and sound else None,
        candidates=len(spec.candidates),
        runs=sum(map(len, runs.values())),
        measured={spec.candidates[c].label: len(found) for c, found in sorted(runs.items())},
        culprits=[_found(spec, each, runs, places) for each in state.culprits] if known else [],
        probable=_probable(spec, state.probabilities) if verdict == "undecided" else {},
        skipped=[entry for entry in journal.entries if isinstance(entry, Skipped)],
        journal=str(journal.path),
        noise=state.noise if known else None,
        interrupted=interrupted,
    )


def _found(spec: Spec, culprit: Culprit, runs: dict[int, list[Run]], places: Places) -> Found:
    before, after = runs[culprit.parent], runs[culprit.culprit]
    candidate = spec.candidates[culprit.culprit]
    try:
        built: tuple[Place, Place] = places.get(culprit.parent), places.get(culprit.culprit)
        changed = what_changed(spec, before, after, built)
    except (CannotRun, BadInput, OSError) as error:
        # The places were deleted since, say: the culprit is known all the same.
        changed = [f"unknown, for its place is gone: {_line(error)}"]
    return Found(
        culprit=candidate.label,
        title=candidate.title,
        parent=spec.candidates[culprit.parent].label,
        suspects=[spec.candidates[c].label for c in culprit.suspects],
        probability=culprit.probability,
        ratio=_finite(culprit.ratio.mid),
        low=_finite(culprit.ratio.low),
        high=_finite(culprit.ratio.high),
        before=median(run.value for run in before),
        after=median(run.value for run in after),
        runs=(len(before), len(after)),
        changed=changed,
    )


def _probable(spec: Spec, chances: list[float]) -> dict[str, float]:
    ranked = sorted(range(len(chances)), key=lambda c: -chances[c])[:MOST_PROBABLE]
    return {spec.candidates[c].label: chances[c] for c in ranked if chances[c] > 0.01}


def _finite(ratio: float) -> float | None:
    """A count that was zero has no ratio."""
    return ratio if math.isfinite(ratio) else None


def _short(label: str) -> str:
    return label[:12] if len(label) == 40 else label[:60]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
