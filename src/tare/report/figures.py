"""The figures of a change, before and now: with digits enough to see it, and no more than the noise leaves."""

import math

from tare.guard.changes import MetricChange
from tare.report.numbers import decimals, seconds, size, size_unit, unit_of

# Digits of a difference that are worth seeing, and the most of a figure.
DIGITS_OF_DIFFERENCE = 2
MOST_DIGITS = 5


def value(number: float, unit: str) -> str:
    """One figure alone."""
    if unit == "s":
        return seconds(number)
    if unit == "B":
        return size(round(number))
    return f"{number:.3g} {unit}".strip() if unit else f"{number:g}"


def before_and_now(change: MetricChange) -> tuple[str, str]:
    """Both in one unit where they are near each other: of 993 µs and 1.0 ms nobody sees which is larger."""
    small, large = sorted((change.a, change.b))
    if not change.unit or small <= 0 or small == large or large > 10 * small:
        return value(change.a, change.unit), value(change.b, change.unit)
    scale, name = scale_of(small, change.unit)
    places = _places(small / scale, (large - small) / scale, change)
    before, now = (f"{number / scale:.{places}f} {name}" for number in (change.a, change.b))
    return before, now


def scale_of(number: float, unit: str) -> tuple[float, str]:
    if unit == "s":
        return unit_of(number)
    return size_unit(number) if unit == "B" else (1.0, unit)


def _places(shown: float, difference: float, change: MetricChange) -> int:
    usual = decimals(shown, 0, 2 if shown < 10 else 3)
    wanted = DIGITS_OF_DIFFERENCE - 1 - math.floor(math.log10(difference))
    if change.low is not None and change.high is not None and change.high > change.low:
        # Up to the first digit that is uncertain.
        wanted = min(wanted, -math.floor(math.log10(shown * (change.high - change.low) / 2)))
    return max(usual, min(wanted, MOST_DIGITS - 1 - math.floor(math.log10(shown))), 0)
