"""The proof of parity: a rung's evidence against the reference in a folder."""

from collections.abc import Callable
from pathlib import Path

from tare.cases.case import Case
from tare.execute.ladder import reference_case
from tare.measure.parity import Reference, compare, load_reference
from tare.records.record import Parity
from tare.rungs.base import Arrays


def prove(evidence: Callable[[], Arrays], folder: Path, case: Case) -> Parity:
    """The verdict on a case; a rung that seems different is judged once more, by a yardstick that knows flips."""
    reference = load_reference(folder)
    if reference is None:
        return Parity(status="unchecked", reason="the reference could not be computed")
    found = evidence()
    parity = judge(found, reference, case.precision)
    if parity.status == "different" and _widen(case, folder):
        wider = load_reference(folder)
        assert wider is not None, "a reference that was widened is there"
        parity = judge(found, wider, case.precision)
    return parity


def judge(found: Arrays, reference: Reference, precision: str) -> Parity:
    return compare(reference.arrays, found, precision, reference.yardstick, reference.described)


def _widen(case: Case, folder: Path) -> bool:
    import torch

    from tare.execute.reference import widen_reference

    try:
        return widen_reference(reference_case(case), folder)
    except torch.OutOfMemoryError:
        # The rung's own memory is still there beside eager's. What one run of eager shows must do.
        return False
