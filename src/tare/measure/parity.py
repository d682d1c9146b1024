"""Parity: does a rung compute what the reference computes?

Each tensor's error is ||candidate - reference|| / ||reference||. The tolerance is the precision's own, or a few
times the error that plain eager makes at that precision (the yardstick) where that is larger: rounding grows
with depth, and a fixed bound is either blind on a small network or wrong on a deep one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.records.record import Parity

Arrays = Mapping[str, NDArray[Any]]

TOLERANCE = {"fp32": 1e-4, "tf32": 3e-3, "bf16": 1e-2, "fp16": 2e-3, "amp-bf16": 1e-2, "amp-fp16": 2e-3}
YARDSTICKS = 4.0
# Where eager's own error is this large, a rung's is of the same size, and a narrower multiple will do.
LARGE = 0.5
YARDSTICKS_WHEN_LARGE = 2.0
# Where eager itself is further off than this at the case's precision, the tensor is rounding noise: it can neither
# prove nor refute anything, and is counted as undecided. (A freshly initialised ResNet-50 has such gradients in
# bfloat16: rounding flips ReLUs, and batch norm amplifies that through fifty layers.)
NOISE = 0.35
# A tensor much smaller than its kind (a gradient that is zero but for rounding) is judged by its kind's size.
NEGLIGIBLE = 1e-2

_MANIFEST = "reference.json"


def errors(reference: Arrays, candidate: Arrays) -> dict[str, float]:
    """The relative error of every tensor; infinite where it is missing, misshapen or not finite."""
    floors = _floors(reference)
    return {name: _error(wanted, candidate.get(name), floors[name]) for name, wanted in reference.items()}


def compare(
    reference: Arrays, candidate: Arrays, precision: str, yardstick: Mapping[str, float], described: str
) -> Parity:
    """The verdict for one rung. NaN where the reference is finite is named apart from merely different."""
    if not reference:
        return Parity(status="unchecked", reason="the reference is empty")
    # What is missing or misshapen differs, however noisy eager's own is.
    telling = {
        name: values
        for name, values in reference.items()
        if yardstick.get(name, 0.0) <= NOISE or name not in candidate or candidate[name].shape != values.shape
    }
    broken = [name for name in reference if name in candidate and _breaks(reference[name], candidate[name])]
    if not telling and not broken:
        return Parity(
            status="unchecked",
            undecided=len(reference),
            reference=described,
            reason=f"eager {precision} itself is only rounding noise here",
        )
    found = {**errors(telling, candidate), **dict.fromkeys(broken, float("inf"))}
    tolerance = {name: _tolerance(precision, yardstick.get(name, 0.0)) for name in found}
    worst = broken[0] if broken else max(found, key=lambda name: found[name] / tolerance[name])
    status = "nan" if broken else "same" if found[worst] <= tolerance[worst] else "different"
    return Parity(
        status=status,  # type: ignore[arg-type]
        error=min(found[worst], 1e300),
        tolerance=tolerance[worst],
        worst=worst,
        compared=len(telling),
        undecided=len(reference) - len(telling),
        reference=described,
    )


class Reference(NamedTuple):
    """What a case should give, how far off eager is, tensor by tensor, and whether that knows of flips."""

    arrays: dict[str, NDArray[Any]]
    yardstick: dict[str, float]
    described: str
    widened: bool


def save_reference(folder: Path, reference: Arrays, yardstick: Mapping[str, float], described: str) -> None:
    """Writes a reference for other processes; the manifest comes last, so a half-written one is never read."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, values in enumerate(reference.values()):
        np.save(folder / f"{i}.npy", values, allow_pickle=False)
    _write_manifest(folder, {"names": list(reference), "described": described, "widened": False}, yardstick)


def save_yardstick(folder: Path, yardstick: Mapping[str, float]) -> None:
    """Puts a wider yardstick in the place of a reference's first."""
    _write_manifest(folder, json.loads((folder / _MANIFEST).read_text()) | {"widened": True}, yardstick)


def load_reference(folder: Path) -> Reference | None:
    """What `save_reference` wrote, or None where it did not finish."""
    path = folder / _MANIFEST
    if not path.exists():
        return None
    manifest = json.loads(path.read_text())
    arrays = {
        name: np.load(folder / f"{i}.npy", mmap_mode="r", allow_pickle=False)
        for i, name in enumerate(manifest["names"])
    }
    return Reference(arrays, manifest["yardstick"], manifest["described"], manifest["widened"])


def _write_manifest(folder: Path, manifest: dict[str, Any], yardstick: Mapping[str, float]) -> None:
    finite = {name: min(error, 1e300) for name, error in yardstick.items()}
    partial = folder / f"{_MANIFEST}.partial"
    partial.write_text(json.dumps(manifest | {"yardstick": finite}))
    partial.replace(folder / _MANIFEST)


def _tolerance(precision: str, yardstick: float) -> float:
    large = max(LARGE, YARDSTICKS_WHEN_LARGE * yardstick)
    return max(TOLERANCE[precision], min(YARDSTICKS * yardstick, large))


def _error(wanted: NDArray[Any], got: NDArray[Any] | None, floor: float) -> float:
    if got is None or got.shape != wanted.shape:
        return float("inf")
    wanted, got = _reals(wanted), _reals(got)
    finite = np.isfinite(wanted)
    if not finite.all():
        # A mask of minus infinities is a result too: it must stand in the same places.
        if not np.array_equal(wanted[~finite], got[~finite], equal_nan=True):
            return float("inf")
        wanted, got = wanted[finite], got[finite]
    difference = float(np.linalg.norm(got - wanted))
    if not np.isfinite(difference):
        return float("inf")
    size = max(float(np.linalg.norm(wanted)), floor)
    return difference / size if size else (0.0 if difference == 0 else float("inf"))


def _reals(values: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers of a tensor in a row; a complex one gives its real and imaginary parts."""
    if np.iscomplexobj(values):
        values = np.stack((values.real, values.imag))
    return np.asarray(values, dtype=np.float64).ravel()


def _breaks(wanted: NDArray[Any], got: NDArray[Any]) -> bool:
    return got.shape == wanted.shape and bool((np.isfinite(wanted) & ~np.isfinite(got)).any())


def _floors(reference: Arrays) -> dict[str, float]:
    """For each tensor the norm under which it counts as nothing, from the root mean square of its kind."""
    squares: dict[str, float] = {}
    counts: dict[str, int] = {}
    for name, values in reference.items():
        kind = name.partition("/")[0]
        reals = _reals(values)
        squares[kind] = squares.get(kind, 0.0) + float(np.sum(np.square(reals), where=np.isfinite(reals)))
        counts[kind] = counts.get(kind, 0) + values.size
    return {
        name: NEGLIGIBLE * float(np.sqrt(squares[k] / max(counts[k], 1) * values.size))
        for name, values in reference.items()
        for k in (name.partition("/")[0],)
    }
