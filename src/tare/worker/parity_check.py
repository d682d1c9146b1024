"""The proof of parity: a rung's evidence against the reference in a folder."""

from collections.abc import Callable
from pathlib import Path

from tare.cases.case import Case
from tare.measure.parity import Reference, compare, load_reference
from tare.protocol.jobs import reference_case
from tare.records.record import Parity
from tare.rungs.base import Arrays


def prove(evidence: Callable[[], Arrays], folder: Path, case: Case) -> Parity:
    """The verdict on a case."""
    reference = load_reference(folder)
    if reference is None:
        return Parity(status="unchecked", reason="the reference could not be computed")
    return judge(
        evidence(), reference, case.precision, lambda: load_reference(folder) if _widen(case, folder) else None
    )


def judge(found: Arrays, reference: Reference, precision: str, widened: Callable[[], Reference | None]) -> Parity:
    """What seems different is judged once more, by a yardstick that knows flips, if there is a wider one."""
    parity = _compare(found, reference, precision)
    if parity.status == "different" and not reference.widened and (wider := widened()):
        parity = _compare(found, wider, precision)
    return parity


def _compare(found: Arrays, reference: Reference, precision: str) -> Parity:
    return compare(reference.arrays, found, precision, reference.yardstick, reference.described)


def _widen(case: Case, folder: Path) -> bool:
    import torch

    from tare.worker.reference import widen_reference

    try:
        return widen_reference(reference_case(case), folder)
    except torch.OutOfMemoryError:
        # The rung's own memory is still there beside eager's. What one run of eager shows must do.
        return False
