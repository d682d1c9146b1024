"""What of a plan was not measured now, in one line."""

from typing import Protocol

from tare.report.numbers import age, several


class Recorded(Protocol):
    """See tare.commands.recorded.Taken."""

    @property
    def taken(self) -> int: ...
    @property
    def planned(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def oldest(self) -> str | None: ...
    @property
    def oldest_age_s(self) -> float | None: ...


def recorded_line(found: Recorded) -> str:
    """What was not measured now, and how old it is."""
    line = f"{found.taken} of {several(found.planned, 'case')} taken from the store"
    if found.oldest:
        known = found.oldest_age_s is not None
        line += f"; the oldest was measured {f'{age(found.oldest_age_s or 0.0)} ago' if known else found.oldest}"
    return f"{line}; {several(found.failed, 'failure')} among them" if found.failed else line
