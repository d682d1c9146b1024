"""The yardstick: how far off eager may be at a case's precision by rounding alone, tensor by tensor.

One run does not tell. Where the input of a ReLU lies within rounding of zero, two correct programs take
different sides; a few gradients then differ by a percent, and eager's own may be on float64's side by luck. So
eager also runs with its weights and what its layers return moved: in pairs, up in the one where down in the
other, each number by `reach` roundings. To first order what is smooth moves the two results equally far in
opposite directions: it is absent from their mean, and half their distance over `reach` is what one rounding
does. A flip happens on one side only, and half of it is left in the mean. So a pair may reach far, to meet the
flips of a rung that rounds more coarsely than eager, and yet widens nothing where nothing flips.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from tare.measure.parity import Arrays, errors


def errors_of_pair(reference: Arrays, up: Arrays, down: Arrays, reach: float) -> dict[str, float]:
    """The error of a pair's mean. A single number may lie near float64's by luck, as no norm of many does: a loss
    has the error of one rounding along the pair's distance, if that is larger."""
    mean, single = {}, {}
    # What only one of the two has is missing from both, and infinitely far off.
    for name in reference.keys() & up.keys() & down.keys():
        one, other = (np.asarray(path[name], dtype=_wide(path[name].dtype)) for path in (up, down))
        with np.errstate(invalid="ignore"):
            # Equal infinities (a mask) are no distance, and their mean is what they are.
            distance = np.where(one == other, 0, one - other)
            mean[name] = other + distance / 2
            if distance.size == 1:
                single[name] = reference[name] + distance / (2 * reach)
    numbers = {name: reference[name] for name in single}
    return widest([errors(reference, mean), errors(numbers, single)])


def widest(paths: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The largest error of every tensor over several paths."""
    found: dict[str, float] = {}
    for path in paths:
        for name, error in path.items():
            found[name] = max(error, found.get(name, 0.0))
    return found


def _wide(dtype: np.dtype) -> type[np.floating | np.complexfloating]:
    return np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64
