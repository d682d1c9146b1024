"""What differs between a culprit and its parent: figures, calls, environment, packages, files."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tare.bisect.candidates import git
from tare.bisect.command import CandidateFailed
from tare.bisect.journal import CandidateRun
from tare.bisect.spec import BisectSpec
from tare.bisect.workspaces import Workspace
from tare.errors import BadInput
from tare.guard.changes import compare_calls
from tare.guard.metrics import METRICS
from tare.records.environment import difference_lines
from tare.system.redaction import redact

MAX_FILES, MAX_CALLS = 15, 10
PIP_TIMEOUT = 120.0
# With five noisy values on either side, one side is entirely above the other by chance once in 126 times.
MIN_NOISY_RUNS = 5


def culprit_changes(
    spec: BisectSpec,
    before: Sequence[CandidateRun],
    after: Sequence[CandidateRun],
    workspaces: tuple[Workspace, Workspace],
) -> list[str]:
    """One line each; empty where nothing is known."""
    lines = _figures(before, after) + _calls(before[-1], after[-1])
    a, b = before[-1].environment, after[-1].environment
    if a and b:
        lines += difference_lines(a, b)
    if spec.has_own_python:
        lines += _packages(workspaces)
    if spec.repo:
        lines += _files(Path(spec.repo), before[-1].label, after[-1].label)
    return lines


def _figures(before: Sequence[CandidateRun], after: Sequence[CandidateRun]) -> list[str]:
    """Figures besides the measured one whose values do not overlap: a count, or a time of several runs."""
    lines = []
    noisy = {metric.name for metric in METRICS if not metric.exact}
    for name in sorted(set(before[0].figures) & set(after[0].figures)):
        a = [run.figures[name] for run in before if name in run.figures]
        b = [run.figures[name] for run in after if name in run.figures]
        if name in noisy and min(len(a), len(b)) < MIN_NOISY_RUNS:
            continue
        if max(a) < min(b) or max(b) < min(a):
            lines.append(f"{name}: {median(a):.6g} to {median(b):.6g}")
    return lines


def _calls(before: CandidateRun, after: CandidateRun) -> list[str]:
    changes = compare_calls(before.calls, after.calls)
    lines = [f"{each.kind} {each.name}: {each.before_calls:g} to {each.after_calls:g} calls" for each in changes]
    more = len(lines) - MAX_CALLS
    return [*lines[:MAX_CALLS], f"... {more} more operators and kernels"] if more > 0 else lines


def _packages(workspaces: tuple[Workspace, Workspace]) -> list[str]:
    try:
        before, after = (set(workspace.packages(PIP_TIMEOUT).split()) for workspace in workspaces)
    except CandidateFailed:
        return []
    removed = [f"package {redact(name)} gone" for name in sorted(before - after)]
    return removed + [f"package {redact(name)} new" for name in sorted(after - before)]


def _files(repo: Path, parent: str, culprit: str) -> list[str]:
    try:
        lines = git(repo, "diff", "--stat=80", parent, culprit).splitlines()
    except BadInput:
        return []
    shown = [line.strip() for line in lines]
    if len(shown) > MAX_FILES:
        shown = [*shown[:MAX_FILES], f"... {len(shown) - MAX_FILES - 1} more files", shown[-1]]
    return shown
