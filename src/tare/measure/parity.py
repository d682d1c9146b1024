"""Parity: does a rung compute what the reference computes?

Each tensor's error is ||candidate - reference|| / ||reference||. The tolerance is a constant of the precision,
or a few times eager's own error at that precision (`eager_errors`) where that is larger: rounding grows with
depth, so that a fixed bound is too loose for a small network or too tight for a deep one.

One run of eager may underestimate its error. Where the input of a ReLU lies within rounding of zero, two correct
programs take different sides (a flip); a few gradients then differ by a percent, and eager's own run may agree
with float64 by luck. `errors_of_pair` therefore uses pairs of runs whose weights and layer outputs are perturbed
by `reach` roundings, in opposite directions. To first order a smooth function moves the two results equally far
in opposite directions, which cancels in their mean, and half their distance over `reach` is the effect of one
rounding. A flip happens on one side only, and half of it remains in the mean. So a pair may reach far enough to
trigger the flips of a rung that rounds more coarsely than eager, without widening the tolerance where nothing
flips.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from math import isqrt, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.records.record import Parity

Arrays = Mapping[str, NDArray[Any]]

TOLERANCE = {"fp32": 1e-4, "tf32": 3e-3, "bf16": 1e-2, "fp16": 2e-3, "amp-bf16": 1e-2, "amp-fp16": 2e-3}
MULTIPLE = 4.0
# Where eager's own error is this large, a smaller multiple of it is enough.
LARGE = 0.5
MULTIPLE_WHEN_LARGE = 2.0
# Where eager's own error is larger than this, the tensor is rounding noise, proves nothing, and is counted as
# undecided. (A freshly initialised ResNet-50 has such gradients in bfloat16: rounding flips ReLUs, and batch norm
# amplifies that through fifty layers.)
NOISE = 0.35
# A tensor much smaller than others of its kind (a gradient that is zero up to rounding) is judged by their size.
NEGLIGIBLE = 1e-2

# The logits of one batch of a language model are a hundred million numbers, which take seconds to compare. Of a
# larger tensor about this many are compared: a wrong row is still seen in hundreds of places, but a single wrong
# number may be missed.
MOST_NUMBERS = 1 << 20

_MANIFEST = "reference.json"


def thinned(values: Any) -> Any:
    """The values (of NumPy or torch), or every k-th of them. k is prime, so that every row and column whose length
    it does not divide is sampled."""
    step = -(-prod(values.shape) // MOST_NUMBERS)
    while step > 1 and any(step % k == 0 for k in range(2, isqrt(step) + 1)):
        step += 1
    return values if step <= 1 else values.reshape(-1)[::step]


def errors(reference: Arrays, candidate: Arrays) -> dict[str, float]:
    """The relative error of every tensor; infinite where it is missing, misshapen or not finite."""
    floors = _floors(reference)
    return {name: _error(wanted, candidate.get(name), floors[name]) for name, wanted in reference.items()}


def compare(
    reference: Arrays, candidate: Arrays, precision: str, eager_errors: Mapping[str, float], described: str
) -> Parity:
    """The verdict for one rung. A value that is not finite where the reference is gives "nan", not "different"."""
    if not reference:
        return Parity(status="unchecked", reason="the reference is empty")
    # A missing or misshapen tensor differs, however noisy eager is.
    decisive = {
        name: values
        for name, values in reference.items()
        if eager_errors.get(name, 0.0) <= NOISE or name not in candidate or candidate[name].shape != values.shape
    }
    broken = [name for name in reference if name in candidate and _breaks(reference[name], candidate[name])]
    if not decisive and not broken:
        return Parity(
            status="unchecked",
            undecided=len(reference),
            reference=described,
            reason=f"eager {precision} itself is only rounding noise here",
        )
    off = {**errors(decisive, candidate), **dict.fromkeys(broken, float("inf"))}
    tolerance = {name: _tolerance(precision, eager_errors.get(name, 0.0)) for name in off}
    worst = broken[0] if broken else max(off, key=lambda name: off[name] / tolerance[name])
    status = "nan" if broken else "same" if off[worst] <= tolerance[worst] else "different"
    return Parity(
        status=status,  # type: ignore[arg-type]
        error=min(off[worst], 1e300),
        tolerance=tolerance[worst],
        worst=worst,
        compared=len(decisive),
        undecided=len(reference) - len(decisive),
        reference=described,
    )


class Reference(NamedTuple):
    """What a case should give, eager's own error for each tensor, and whether that accounts for flips
    (`widened`)."""

    arrays: dict[str, NDArray[Any]]
    eager_errors: dict[str, float]
    described: str
    widened: bool


def judge(
    evidence: Arrays, reference: Reference, precision: str, widened: Callable[[], Reference | None]
) -> Parity:
    """The verdict; evidence that seems different is compared again with wider errors of eager, if there are
    any."""
    parity = compare(reference.arrays, evidence, precision, reference.eager_errors, reference.described)
    if parity.status == "different" and not reference.widened and (wider := widened()):
        parity = compare(wider.arrays, evidence, precision, wider.eager_errors, wider.described)
    return parity


def save_reference(folder: Path, reference: Arrays, eager_errors: Mapping[str, float], described: str) -> None:
    """Writes a reference for other processes. The manifest comes last, so that a partial one is never read."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, values in enumerate(reference.values()):
        np.save(folder / f"{i}.npy", values, allow_pickle=False)
    _write_manifest(folder, {"names": list(reference), "described": described, "widened": False}, eager_errors)


def save_eager_errors(folder: Path, eager_errors: Mapping[str, float]) -> None:
    """Replaces eager's errors in a reference by wider ones."""
    _write_manifest(folder, json.loads((folder / _MANIFEST).read_text()) | {"widened": True}, eager_errors)


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
    return Reference(arrays, manifest["eager_errors"], manifest["described"], manifest["widened"])


def _write_manifest(folder: Path, manifest: dict[str, Any], eager_errors: Mapping[str, float]) -> None:
    finite = {name: min(error, 1e300) for name, error in eager_errors.items()}
    partial = folder / f"{_MANIFEST}.partial"
    partial.write_text(json.dumps(manifest | {"eager_errors": finite}))
    partial.replace(folder / _MANIFEST)


def _tolerance(precision: str, eager_error: float) -> float:
    large = max(LARGE, MULTIPLE_WHEN_LARGE * eager_error)
    return max(TOLERANCE[precision], min(MULTIPLE * eager_error, large))


def _error(wanted: NDArray[Any], got: NDArray[Any] | None, floor: float) -> float:
    if got is None or got.shape != wanted.shape:
        return float("inf")
    wanted, got = _reals(wanted), _reals(got)
    finite = np.isfinite(wanted)
    if not finite.all():
        # Infinities (a mask) have to be equal and in the same places.
        if not np.array_equal(wanted[~finite], got[~finite], equal_nan=True):
            return float("inf")
        wanted, got = wanted[finite], got[finite]
    difference = float(np.linalg.norm(got - wanted))
    if not np.isfinite(difference):
        return float("inf")
    size = max(float(np.linalg.norm(wanted)), floor)
    return difference / size if size else (0.0 if difference == 0 else float("inf"))


def _reals(values: NDArray[Any]) -> NDArray[np.float64]:
    """The values of a tensor, flattened; a complex one gives its real and imaginary parts."""
    if np.iscomplexobj(values):
        values = np.stack((values.real, values.imag))
    return np.asarray(values, dtype=np.float64).ravel()


def _breaks(wanted: NDArray[Any], got: NDArray[Any]) -> bool:
    return got.shape == wanted.shape and bool((np.isfinite(wanted) & ~np.isfinite(got)).any())


def _floors(reference: Arrays) -> dict[str, float]:
    """For each tensor the norm below which it counts as zero, from the root mean square of its kind."""
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


def errors_of_pair(reference: Arrays, up: Arrays, down: Arrays, reach: float) -> dict[str, float]:
    """The error of a pair's mean. A single number (a loss) may be near float64's by luck, unlike the norm of many:
    its error is at least that of one rounding, by the distance between the pair."""
    mean, single = {}, {}
    # A tensor that only one of the two has is missing from the mean, and so has an infinite error.
    for name in reference.keys() & up.keys() & down.keys():
        raised, lowered = (run[name].astype(np.result_type(run[name].dtype, np.float64)) for run in (up, down))
        with np.errstate(invalid="ignore"):
            # The distance between equal infinities (a mask) is zero.
            distance = np.where(raised == lowered, 0, raised - lowered)
            mean[name] = lowered + distance / 2
            if distance.size == 1:
                single[name] = reference[name] + distance / (2 * reach)
    numbers = {name: reference[name] for name in single}
    return widest([errors(reference, mean), errors(numbers, single)])


def widest(runs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The largest error of every tensor over several runs."""
    largest: dict[str, float] = {}
    for run in runs:
        for name, error in run.items():
            largest[name] = max(error, largest.get(name, 0.0))
    return largest
