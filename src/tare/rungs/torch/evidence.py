"""Which numbers of a result are compared: all, or about a million of a very large tensor."""

from math import isqrt, prod
from typing import Any

# The logits of one batch of a language model are a hundred million numbers, which take seconds to compare. A
# wrong row is still seen in hundreds of places; a single wrong number may be missed.
LIMIT = 1 << 20


def thinned(values: Any) -> Any:
    """The values, or every k-th of them. k is prime, so that every row and column whose length it does not
    divide is sampled."""
    step = _prime_from(-(-prod(values.shape) // LIMIT))
    return values if step <= 1 else values.reshape(-1)[::step]


def _prime_from(number: int) -> int:
    while number > 1 and any(number % k == 0 for k in range(2, isqrt(number) + 1)):
        number += 1
    return number
