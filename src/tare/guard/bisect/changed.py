"""What differs between a culprit and its parent: environment, packages, figures, files."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tare.errors import BadInput
from tare.guard.bisect.candidates import git
from tare.guard.bisect.journal import Run
from tare.guard.bisect.places import Place
from tare.guard.bisect.process import CannotRun, run_vector
from tare.guard.bisect.spec import Spec
from tare.records.environment import differences

MOST_FILES = 15


def what_changed(
    spec: Spec, before: Sequence[Run], after: Sequence[Run], places: tuple[Place, Place]
) -> list[str]:
    """A line each; nothing where nothing is known."""
    lines = _figures(before, after)
    a, b = before[-1].environment, after[-1].environment
    if a and b:
        lines += differences(a, b)
    if spec.has_own_python:
        lines += _packages(places)
    if spec.repo:
        lines += _files(Path(spec.repo), before[-1].label, after[-1].label)
    return lines


def _figures(before: Sequence[Run], after: Sequence[Run]) -> list[str]:
    """Figures besides the measured one whose values do not overlap: a count that is always one more, say."""
    lines = []
    for name in sorted(set(before[0].figures) & set(after[0].figures)):
        a = [run.figures[name] for run in before if name in run.figures]
        b = [run.figures[name] for run in after if name in run.figures]
        if max(a) < min(b) or max(b) < min(a):
            lines.append(f"{name}: {median(a):.6g} to {median(b):.6g}")
    return lines


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
