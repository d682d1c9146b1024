"""What differs between a culprit and its parent: environment, packages, figures, files."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tare.bisect.candidates import git
from tare.bisect.journal import Run
from tare.bisect.process import CannotRun, run_vector
from tare.bisect.spec import Spec
from tare.bisect.worktrees import Place
from tare.errors import BadInput
from tare.guard.environment_diff import name_differences
from tare.guard.metrics import METRICS
from tare.records.environment import difference_lines

MOST_FILES, MOST_CALLS = 15, 10
# Five values of noise on either side are apart by chance once in 126 times.
SEVERAL = 5


def what_changed(
    spec: Spec, before: Sequence[Run], after: Sequence[Run], places: tuple[Place, Place]
) -> list[str]:
    """A line each; nothing where nothing is known."""
    lines = _figures(before, after) + _calls(before[-1], after[-1])
    a, b = before[-1].environment, after[-1].environment
    if a and b:
        lines += difference_lines(a, b)
    if spec.has_own_python:
        lines += _packages(places)
    if spec.repo:
        lines += _files(Path(spec.repo), before[-1].label, after[-1].label)
    return lines


def _figures(before: Sequence[Run], after: Sequence[Run]) -> list[str]:
    """Figures besides the measured one whose values do not overlap: a count that is always one more, or a time of
    several runs. A few runs of a time differ so by chance, too."""
    lines = []
    noisy = {metric.name for metric in METRICS if not metric.exact}
    for name in sorted(set(before[0].figures) & set(after[0].figures)):
        a = [run.figures[name] for run in before if name in run.figures]
        b = [run.figures[name] for run in after if name in run.figures]
        if name in noisy and min(len(a), len(b)) < SEVERAL:
            continue
        if max(a) < min(b) or max(b) < min(a):
            lines.append(f"{name}: {median(a):.6g} to {median(b):.6g}")
    return lines


def _calls(before: Run, after: Run) -> list[str]:
    """What a step calls more or less often, operators and kernels."""
    found = name_differences("kernel", before.kernels, after.kernels)
    found += name_differences("operator", before.operators, after.operators)
    lines = [f"{one.what} {one.name}: {one.before_calls:g} to {one.after_calls:g} calls" for one in found]
    left = len(lines) - MOST_CALLS
    return [*lines[:MOST_CALLS], f"... {left} more operators and kernels"] if left > 0 else lines


def _packages(places: tuple[Place, Place]) -> list[str]:
    try:
        found = [
            set(run_vector(_listing(place), place.folder, place.environment, 120).output.split())
            for place in places
        ]
    except CannotRun:
        return []
    gone, come = sorted(found[0] - found[1]), sorted(found[1] - found[0])
    return [f"package {name} gone" for name in gone] + [f"package {name} new" for name in come]


def _listing(place: Place) -> list[str]:
    return [place.python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]


def _files(repo: Path, parent: str, culprit: str) -> list[str]:
    try:
        lines = git(repo, "diff", "--stat=80", parent, culprit).splitlines()
    except BadInput:
        return []
    shown = [line.strip() for line in lines]
    if len(shown) > MOST_FILES:
        shown = [*shown[:MOST_FILES], f"... {len(shown) - MOST_FILES - 1} more files", shown[-1]]
    return shown
