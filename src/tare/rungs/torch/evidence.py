"""Which numbers of a result are compared: all, or of a very large tensor about a million all over it."""

from math import isqrt, prod
from typing import Any

# The logits of one batch of a language model are a hundred million numbers, and to compare two of those takes
# seconds. A row that is wrong is still met in hundreds of places; a single wrong number may be missed.
LIMIT = 1 << 20


def thinned(values: Any) -> Any:
    """A tensor or array, or every k-th number of it in a row. k is prime, so that it meets every row and column
    whose length it does not divide."""
    step = _prime_from(-(-prod(values.shape) // LIMIT))
    return values if step <= 1 else values.reshape(-1)[::step]


def _prime_from(number: int) -> int:
    while number > 1 and any(number % k == 0 for k in range(2, isqrt(number) + 1)):
        number += 1
    return number
