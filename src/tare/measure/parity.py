"""Parity: does a rung compute what the reference computes?

Each tensor's error is ||candidate - reference|| / ||reference||. The tolerance is a constant of the precision,
or a few times eager's own error at that precision (`eager_errors`) where that is larger: rounding grows with
depth, so that a fixed bound is too loose for a small network or too tight for a deep one.

One run of eager may underestimate its error. A single number may be near float64's by luck. Where the input of a
ReLU lies within rounding of zero, two correct programs take different sides (a flip), and a few gradients then
differ by a percent. A tensor whose terms cancel (the gradient of a bias before a batch norm is zero but for
rounding) differs between correct programs by as much as their sums are in another order. Evidence that seems
different is therefore judged again by the errors of several perturbed runs:

* `errors_of_pair` uses pairs of runs whose weights and layer outputs are perturbed by `reach` roundings, in
  opposite directions. To first order a smooth function moves the two results equally far in opposite directions,
  which cancels in their mean; half their distance over `reach` is the effect of one rounding. A flip happens on
  one side only, and half of it remains in the mean. So a pair may reach far enough to trigger the flips of a rung
  that rounds more coarsely than eager, without widening the tolerance where nothing flips.
* A run that is perturbed further shows the size that a tensor's terms have before they cancel (`cancellation`):
  the change, divided by the share of the perturbation. Where the terms are ten thousand times the tensor or more,
  only the order of its sums decides its value, and a rung that adds thousands of terms one by one may be off by up
  to a hundred roundings of the terms, instead of four.
"""

import json
import re
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
# A tensor that eager leaves undecided is still different where it is off by this many times eager's own error.
GROSS = 30.0
# Where eager's own error is larger than this, its numbers have overflowed: others that do may be right.
OVERFLOWN = 1e3
# A tensor this much smaller than others of its kind (a gradient that is zero up to rounding) is judged by their
# size.
NEGLIGIBLE = 1e-4
# From a tensor whose terms are this many times larger than itself on, a correct sum may be off by more than
# `MULTIPLE` roundings of them, in proportion to that ratio, up to `MOST_ROUNDINGS`.
CANCELLING = 1e4
MOST_ROUNDINGS = 100.0

# The logits of one batch of a language model are a hundred million numbers, which take seconds to compare. Of a
# larger tensor about this many are compared: a wrong row is still seen in hundreds of places, but a single wrong
# number may be missed.
MOST_NUMBERS = 1 << 20

_MANIFEST = "reference.json"


def thinned(values: Any) -> Any:
    """The values (of NumPy or torch), or every k-th of them."""
    step = thinning(prod(values.shape))
    return values if step <= 1 else values.reshape(-1)[::step]


def thinning(size: int) -> int:
    """The k of which every k-th number of a tensor is compared: a prime, so that every row and column whose length
    it does not divide is sampled."""
    step = -(-size // MOST_NUMBERS)
    while step > 1 and any(step % k == 0 for k in range(2, isqrt(step) + 1)):
        step += 1
    return max(step, 1)


def errors(reference: Arrays, candidate: Arrays) -> dict[str, float]:
    """The relative error of every tensor; infinite where it is missing, misshapen or not finite. Of several
    samples of a tensor (`name#0`, `name#1`, ...) the worst counts."""
    floors, samples = _floors(reference), _samples(reference, candidate)
    return {
        name: max((_error(wanted, values, floors[name]) for values in samples[name]), default=float("inf"))
        for name, wanted in reference.items()
    }


def compare(
    reference: Arrays, candidate: Arrays, precision: str, eager_errors: Mapping[str, float], described: str
) -> Parity:
    """The verdict for one rung. A value that is not finite where the reference is gives "nan", not "different"."""
    if not reference:
        return Parity(status="unchecked", reason="there is no tensor to compare")
    if reason := _proves_nothing(reference):
        return Parity(status="unchecked", undecided=len(reference), reference=described, reason=reason)
    samples = _samples(reference, candidate)
    off = errors(reference, candidate)
    own = {name: eager_errors.get(name, 0.0) for name in reference}
    # A missing or misshapen tensor differs, however noisy eager is.
    lacking = {
        name
        for name, values in reference.items()
        if not samples[name] or any(sample.shape != values.shape for sample in samples[name])
    }
    broken = [
        name
        for name, values in reference.items()
        if own[name] < OVERFLOWN and any(_breaks(values, sample) for sample in samples[name])
    ]
    decisive = lacking | {name for name, values in reference.items() if _is_decisive(values, own[name])}
    gross = {name for name in reference if off[name] > _gross(own[name])}
    judged = [name for name in reference if name in decisive or name in gross or name in broken]
    if not judged:
        return Parity(
            status="unchecked",
            undecided=len(reference),
            reference=described,
            reason=f"eager {precision} itself is only rounding noise here",
        )
    off |= dict.fromkeys(broken, float("inf"))
    tolerance = {name: _tolerance(precision, own[name]) for name in judged}
    worst = broken[0] if broken else max(judged, key=lambda name: off[name] / tolerance[name])
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
    """What a case should give, eager's own error for each tensor, and whether that comes from perturbed runs as
    well (`widened`). It was computed `without_dropout` where dropout would have made every run different. Where
    `unchecked` says why, nothing can be compared with it."""

    arrays: dict[str, NDArray[Any]]
    eager_errors: dict[str, float]
    described: str
    widened: bool = False
    without_dropout: bool = False
    unchecked: str = ""
    # Of one step, as far as they are counted.
    flops: float = 0.0


def judge(
    evidence: Arrays, reference: Reference, precision: str, widened: Callable[[], Reference | None]
) -> Parity:
    """The verdict; evidence that seems different is compared again with wider errors of eager, if there are
    any."""
    if reference.unchecked:
        return Parity(status="unchecked", reason=reference.unchecked)
    parity = compare(reference.arrays, evidence, precision, reference.eager_errors, reference.described)
    if parity.status in ("different", "nan") and not reference.widened and (wider := widened()):
        parity = compare(wider.arrays, evidence, precision, wider.eager_errors, wider.described)
    return parity


def limits(reference: Reference, precision: str) -> dict[str, tuple[float, float]]:
    """For each tensor the largest error with which `compare` calls a candidate the same, infinite where it decides
    nothing; and the norm below which the tensor counts as zero."""
    floors = _floors(reference.arrays)
    result = {}
    for name, values in reference.arrays.items():
        own = reference.eager_errors.get(name, 0.0)
        limit = _tolerance(precision, own) if _is_decisive(values, own) else _gross(own)
        result[name] = (limit, floors[name])
    return result


def _is_decisive(values: NDArray[Any], own: float) -> bool:
    """Whether a tensor is compared by its tolerance: neither noise on eager itself nor infinite throughout."""
    return own <= NOISE and bool(not values.size or np.isfinite(values).any())


def _gross(own: float) -> float:
    """The error from which on even a tensor that is noise on eager itself is different."""
    return GROSS * max(own, 1.0) if own < OVERFLOWN else float("inf")


def save_reference(folder: Path, reference: Reference) -> None:
    """Writes a reference for other processes. The manifest comes last, so that a partial one is never read."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, values in enumerate(reference.arrays.values()):
        np.save(folder / f"{i}.npy", values, allow_pickle=False)
    _write_manifest(folder, reference)


def save_eager_errors(folder: Path, reference: Reference, eager_errors: Mapping[str, float]) -> None:
    """Replaces eager's errors in a reference by wider ones."""
    _write_manifest(folder, reference._replace(eager_errors=dict(eager_errors), widened=True))


def _write_manifest(folder: Path, reference: Reference) -> None:
    finite = {name: min(error, 1e300) for name, error in reference.eager_errors.items()}
    manifest = reference._asdict() | {"arrays": list(reference.arrays), "eager_errors": finite}
    partial = folder / f"{_MANIFEST}.partial"
    partial.write_text(json.dumps(manifest))
    partial.replace(folder / _MANIFEST)


def load_reference(folder: Path) -> Reference | None:
    """What `save_reference` wrote, or None where it did not finish."""
    path = folder / _MANIFEST
    if not path.exists():
        return None
    manifest = json.loads(path.read_text())
    arrays = {
        name: np.load(folder / f"{i}.npy", mmap_mode="r", allow_pickle=False)
        for i, name in enumerate(manifest.pop("arrays"))
    }
    return Reference(arrays, **manifest)


def is_without_dropout(folder: Path) -> bool:
    """Whether a reference can only be compared with rungs whose dropout is off."""
    path = folder / _MANIFEST
    return path.exists() and bool(json.loads(path.read_text())["without_dropout"])


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


_SAMPLE = re.compile(r"#\d+\Z")


def _samples(reference: Arrays, candidate: Arrays) -> dict[str, list[NDArray[Any]]]:
    """For each tensor of the reference its samples in the candidate: `name` itself, or `name#0`, `name#1`, ..."""
    samples: dict[str, list[NDArray[Any]]] = {name: [] for name in reference}
    for name, values in candidate.items():
        base = name if name in samples else _SAMPLE.sub("", name)
        if base in samples:
            samples[base].append(values)
    return samples


def _proves_nothing(reference: Arrays) -> str:
    """Why no candidate could differ from a reference, or an empty text."""
    numbers = [values for values in reference.values() if values.size]
    if numbers and not any(np.isfinite(values).any() for values in numbers):
        return "the reference has no finite value, and any other program gives the same infinities"
    if numbers and not any(values.any() for values in numbers):
        return "the reference is zero everywhere, which proves nothing"
    return ""


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
    """For each tensor the larger of two errors: that of the pair's mean, and the effect of one rounding, by the
    distance between the pair."""
    mean, moved = {}, {}
    # A tensor that only one of the two has is missing from the mean, and so has an infinite error.
    for name in reference.keys() & up.keys() & down.keys():
        raised, lowered = (run[name].astype(np.result_type(run[name].dtype, np.float64)) for run in (up, down))
        with np.errstate(invalid="ignore", over="ignore"):
            # The distance between equal infinities (a mask) is zero.
            distance = np.where(raised == lowered, 0, raised - lowered)
            mean[name] = lowered + distance / 2
            moved[name] = reference[name] + distance / (2 * reach)
    return widest([errors(reference, mean), errors(reference, moved)])


def cancellation(reference: Arrays, perturbed: Arrays, share: float) -> dict[str, float]:
    """How many times eager's own error a correct rung may be off because a tensor's terms cancel, by a run whose
    weights and layer outputs are perturbed by a `share` that is far larger than rounding."""
    factors = {}
    for name, error in errors(reference, perturbed).items():
        size = float(np.linalg.norm(_reals(reference[name])))
        # `errors` may have divided by the size of other tensors of the kind.
        terms = error * max(size, _floors(reference)[name]) / share
        ratio = terms / size if size else float("inf")
        factors[name] = min(max(ratio / CANCELLING, 1.0), MOST_ROUNDINGS / MULTIPLE)
    return factors


def update_errors(
    reference: Arrays, eager_errors: Mapping[str, float], weights: Mapping[str, float], rounding: float, adam: bool
) -> dict[str, float]:
    """Eager's errors, wider for updates where its runs may show them too small by luck. `weights` has the norm of
    each parameter: an update smaller than the rounding of its weight is lost or is one rounding. The first update
    of a weight by Adam is the learning rate times the sign of the gradient: where a gradient is smaller than its
    own rounding, two correct programs may move the weight in opposite directions."""
    wider, floors = dict(eager_errors), _floors(reference)
    for name, update in reference.items():
        kind, _, parameter = name.partition("/")
        gradient = reference.get(f"gradient/{parameter}")
        size = max(float(np.linalg.norm(_reals(update))), floors[name])
        if kind != "update" or gradient is None or not size:
            continue
        least = rounding * weights.get(parameter.partition("@")[0], 0.0) / size
        if adam:
            allowed = MULTIPLE * eager_errors.get(f"gradient/{parameter}", 0.0)
            terms = max(float(np.linalg.norm(_reals(gradient))), floors[f"gradient/{parameter}"])
            at_risk = np.abs(gradient) < 2 * allowed * terms / np.sqrt(gradient.size)
            moved = (np.abs(update) + np.abs(update).max())[at_risk]
            least = max(least, float(np.linalg.norm(moved)) / size / MULTIPLE)
        wider[name] = max(eager_errors.get(name, 0.0), least)
    return wider


def widest(runs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The largest error of every tensor over several runs."""
    largest: dict[str, float] = {}
    for run in runs:
        for name, error in run.items():
            largest[name] = max(error, largest.get(name, 0.0))
    return largest
