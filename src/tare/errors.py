"""The errors a user may see: one line that says what is wrong and what to do, and an exit code."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

# The most names that a row of valid ones may have.
READABLE = 40


class TareError(Exception):
    """Something failed although the input was fine: exit code 1."""

    exit_code = 1


class BadInput(TareError):
    """The user's input cannot be used as it is: exit code 2."""

    exit_code = 2


class Interrupted(TareError):
    """By Ctrl-C or a signal, with everything kept that was measured: exit code 130. A KeyboardInterrupt would end
    without a word, for Typer takes it for an exit."""

    exit_code = 130

    def __init__(self, then: str = "the same command with --resume goes on from here") -> None:
        super().__init__(f"interrupted: {then}")


class Unsupported(TareError):
    """A rung cannot run this workload, found out while preparing it: the case's result, not an error of ours."""


def unknown(what: str, value: object, valid: Iterable[object], where: str = "", listed: str = "") -> BadInput:
    """The one way to refuse a name: it says where it stood, what was meant perhaps, and what is valid (`listed`,
    where all of it in one row would be too long to read)."""
    names = sorted(str(v) for v in valid)
    close = get_close_matches(str(value), names, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    place = f" in {where}" if where else ""
    shown = str(value)[:80]
    return BadInput(f"unknown {what} '{shown}'{place}{hint} (valid: {listed or ', '.join(names) or 'none'})")


def unknown_workload(name: str, known: Collection[str], where: str = "") -> BadInput:
    """The names of a whole zoo would fill a screen: from some number on, the command that lists them."""
    listed = f"{len(known)} names, see `tare list workloads`" if len(known) > READABLE else ""
    return unknown("workload", name, known, where, listed)


def quote(value: object) -> str:
    """A refused value, cut to a readable length."""
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):
        # Python prints no number of more than 4300 digits, and no list that is nested too deeply.
        return "something too large to show"


def first_line(error: BaseException) -> str:
    """What an error says first; some libraries begin with an empty line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def brief(error: Exception) -> str:
    """What a library says of a wrong value, on one line; the middle of a long one goes, for it is that value."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 250 else f"{text[:120]} ... {text[-120:]}"
