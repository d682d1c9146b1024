"""The proof of parity: a rung's evidence against the reference in a folder."""

from collections.abc import Callable
from pathlib import Path

from tare.measure.parity import compare, load_reference
from tare.records.record import Parity
from tare.rungs.base import Arrays


def prove(evidence: Callable[[], Arrays], reference: Path, precision: str) -> Parity:
    found = load_reference(reference)
    if found is None:
        return Parity(status="unchecked", reason="the reference could not be computed")
    arrays, yardstick, described = found
    return compare(arrays, evidence(), precision, yardstick, described)
