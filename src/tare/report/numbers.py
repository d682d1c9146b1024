"""Numbers with units, and with no more digits than their noise allows."""

import math
from collections.abc import Callable

from tare.stats.intervals import Interval

# The noise of a single process is not known: a ratio of its figures shows two digits.
UNKNOWN_NOISE = 0.05
# From this ratio on a change is printed as a factor instead of per cent.
MIN_FACTOR = 10.0
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def unit_of(seconds: float) -> tuple[float, str]:
    return next(((scale, name) for scale, name in UNITS if seconds >= scale), UNITS[-1])


def decimals(value: float, uncertainty: float, most_digits: int = 4) -> int:
    """Decimals that show the first uncertain digit of a value, and at most `most_digits` digits in all."""
    size = math.floor(math.log10(abs(value))) if value else 0
    known = -math.floor(math.log10(uncertainty)) if uncertainty > 0 else most_digits
    return max(min(known, most_digits - 1 - size), 0)


def duration(interval: Interval) -> str:
    """A time with the half width of its interval, where that is known: '6.31 ±0.04 ms'."""
    scale, unit = unit_of(interval.mid)
    value, half = interval.mid / scale, (interval.high - interval.low) / 2 / scale
    places = decimals(value, half)
    if not interval.sound:
        return f"{value:.{places}f} {unit}"
    if half > value:
        # Two rounds that disagree can have an interval of any size.
        return f"{value:.{places}f} {unit} ±>100%"
    return f"{value:.{places}f} ±{_half_width(half, places)} {unit}"


def seconds(value: float | None, fewest_digits: int = 2) -> str:
    """A time to two or three digits, for a figure without an interval."""
    if value is None:
        return "-"
    scale, unit = unit_of(value)
    shown = value / scale
    return f"{shown:.{decimals(shown, 0, fewest_digits if shown < 10 else 3)}f} {unit}"


def rate(value: float | None) -> str:
    """Items per second to three digits: '61,200/s'."""
    return "-" if value is None else f"{float(f'{value:.3g}'):,.15g}/s"


def age(seconds_: float) -> str:
    """An age in its largest unit: '3 days', '1 hour'."""
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"))
    scale, unit = next(((scale, unit) for scale, unit in units if seconds_ >= scale), (1, "second"))
    return several(int(seconds_ // scale), unit)


def stretch(seconds_: float) -> str:
    """A planned duration: '48 s', '7 min', '3.1 h'."""
    if seconds_ < 100:
        return f"{seconds_:.0f} s"
    return f"{seconds_ / 60:.0f} min" if seconds_ < 6000 else f"{seconds_ / 3600:.1f} h"


def ratio(value: float | None, relative_noise: float | None) -> str:
    """A ratio with as many digits as the noise of its two measurements allows."""
    if value is None:
        return "-"
    if relative_noise is None:
        relative_noise = UNKNOWN_NOISE
    places = decimals(value, max(value * relative_noise, 1e-3), 3)
    # Never "0x": one digit stays, however uncertain.
    least = -math.floor(math.log10(value)) if 0 < value < 1 else 0
    return f"{value:.{max(places, least)}f}x"


def several(count: float, one: str, more: str = "") -> str:
    """A count with its noun: '1 copy', '2.5 copies'."""
    shown = f"{count:.0f}" if count >= 100 or count == int(count) else f"{count:.3g}"
    return f"{shown} {one if shown == '1' else more or one + 's'}"


def size_unit(bytes_: float) -> tuple[float, str]:
    scale, unit = 1.0, "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if bytes_ / scale < 1000 or unit == "TiB":
            break
        scale *= 1024
    return scale, unit


def size(bytes_: int | None) -> str:
    if bytes_ is None:
        return "-"
    scale, unit = size_unit(bytes_)
    value = bytes_ / scale
    if value >= 100 or unit == "B":
        return f"{value:.0f} {unit}"
    return f"{value:.{3 if value >= 1 else 2}g} {unit}"


def short_size(bytes_: int | None) -> str:
    """As `ls -h` writes it: 812M, 1.05G."""
    return size(bytes_).replace(" ", "").replace("iB", "")


def scale_of(number: float, unit: str) -> tuple[float, str]:
    if unit == "s":
        return unit_of(number)
    return size_unit(number) if unit == "B" else (1.0, unit)


def value(number: float, unit: str) -> str:
    """A figure of any metric."""
    if unit == "s":
        return seconds(number)
    if unit == "B":
        return size(round(number))
    return f"{number:.3g} {unit}" if unit else f"{number:g}"


def signed(number: int, show: Callable[[int], str]) -> str:
    return f"{'-' if number < 0 else ''}{show(abs(number))}"


def prefixed(number: float, unit: str) -> str:
    """Three digits with a decimal prefix: '4.09 GFLOP'."""
    scale, prefix = next((each for each in PREFIXES if number >= each[0]), PREFIXES[-1])
    return f"{number / scale:.3g} {prefix}{unit}"


def percent(share: float) -> str:
    shown = 100 * share
    if 0 < shown < 0.05:
        return "<0.1 %"
    return f"{shown:.1f} %" if shown < 99.95 else "100 %"


def change_text(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """A relative change with its interval: '+5.2 % (+4.8 to +5.6 %)', '65x (5.8x to 180x)'."""
    if ratio is None:
        return "from nothing"
    if max(ratio, low or 0, high or 0) >= MIN_FACTOR:
        # Three digits, and a power of ten only where there is no other way to be short.
        factors = (float(f"{number or 0:.3g}") for number in (ratio, low, high))
        middle, first, last = (f"{factor:,.0f}x" if 1000 <= factor < 1e6 else f"{factor:g}x" for factor in factors)
    else:
        middle, first, last = (f"{((number or 0) - 1) * 100:+.1f} %" for number in (ratio, low, high))
    if low is None or high is None or low == high:
        return middle
    return f"{middle} ({first.removesuffix(' %')} to {last})"


def _half_width(half: float, places: int) -> str:
    """Zero only if it is zero: a width below the last digit shown is rounded up to it."""
    return f"{max(half, 10.0**-places) if half > 0 else 0:.{places}f}"
