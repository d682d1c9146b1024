"""Many tests at once: which of them may be believed together."""

from collections.abc import Sequence


def adjusted(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """The p-values after Benjamini and Hochberg (1995): rejecting those up to q keeps false discoveries to q.

    Where nothing is true, the chance of any rejection is at most q. `tests` counts those as well whose p-value was
    not computed because it could not have mattered (they enter as 1).
    """
    count = max(len(p_values), tests or 0)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i], reverse=True)
    found = [1.0] * len(p_values)
    least = 1.0
    for position, i in enumerate(order):
        rank = len(p_values) - position
        least = min(least, p_values[i] * count / rank)
        found[i] = least
    return found
