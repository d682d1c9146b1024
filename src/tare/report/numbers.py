"""Numbers with units, and with no more digits than their noise allows."""

import math

from tare.stats.intervals import Interval

# The noise of a single process is not known: a ratio of its figures shows two digits.
UNKNOWN_NOISE = 0.05
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


def seconds(value: float | None) -> str:
    """A time to two or three digits, for a figure without an interval."""
    if value is None:
        return "-"
    scale, unit = unit_of(value)
    shown = value / scale
    return f"{shown:.{decimals(shown, 0, 2 if shown < 10 else 3)}f} {unit}"


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


def _half_width(half: float, places: int) -> str:
    """Zero only if it is zero: a width below the last digit shown is rounded up to it."""
    return f"{max(half, 10.0**-places) if half > 0 else 0:.{places}f}"
