"""The errors a user may see: one line that says what is wrong and what to do, and an exit code."""

from collections.abc import Iterable
from difflib import get_close_matches

# An error message lists at most this many valid names.
MOST_LISTED = 40
# Characters of a refused value or a library's message in which secrets are looked for.
LONGEST_VALUE = 10_000


class TareError(Exception):
    """Something failed although the input was valid: exit code 1."""

    exit_code = 1


class BadInput(TareError):
    """The user's input cannot be used as it is: exit code 2."""

    exit_code = 2


class Interrupted(TareError):
    """Ctrl-C or a signal; everything measured so far is stored: exit code 130.

    Typer would treat a KeyboardInterrupt as an exit without a message.
    """

    exit_code = 130

    def __init__(self, next_step: str = "the same command with --resume continues from here") -> None:
        super().__init__(f"interrupted: {next_step}")


class Unsupported(TareError):
    """A rung found while preparing that it cannot run this workload. That is the case's result, not an error."""


def unknown(kind: str, name: object, valid: Iterable[object], where: str = "", listed: str = "") -> BadInput:
    """Refuses a name: says where it was found, suggests the closest valid name, and lists the valid ones. `listed`
    replaces that list, and so does a command where the list would fill a screen, as that of the zoo would."""
    from tare.system.redaction import redact

    names = sorted(str(each) for each in valid)
    close = get_close_matches(str(name), names, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    place = f" in {where}" if where else ""
    if len(names) > MOST_LISTED and not listed:
        listed = f"{len(names)} names, see `tare list {kind}s`"
    listed = listed or ", ".join(names) or "none"
    return BadInput(f"unknown {kind} '{redact(str(name)[:LONGEST_VALUE])[:80]}'{place}{hint} (valid: {listed})")


def nearest_names(name: str, valid: Iterable[str], most: int = 12) -> str:
    """The end of a message that a user's file has no such name: the nearest that it has, the likeliest meant
    apart."""
    names = list(dict.fromkeys(valid))
    close = get_close_matches(name, names, n=most, cutoff=0.5)
    rest = [each for each in names if each not in close]
    shown = [*close, *rest][:most]
    hint = f"; did you mean '{shown[0]}'?" if close else ""
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{hint} (it has {', '.join(shown) or 'nothing of its own'}{more})"


def quote(value: object) -> str:
    """A refused value, cut to a readable length."""
    from tare.system.redaction import redact

    try:
        # Before it is cut: a part of a secret would not be recognised.
        return redact(repr(value)[:LONGEST_VALUE])[:60]
    except (ValueError, RecursionError):
        # Python prints no number of more than 4300 digits, and no list that is nested too deeply.
        return "something too large to show"


def message_of(error: BaseException) -> str:
    """An error's message; none where the error cannot be printed: its text may be computed by somebody's code."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the name of the error has to do
        return ""


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not empty."""
    return next((line.strip() for line in message_of(error).splitlines() if line.strip()), "")


def brief(error: BaseException) -> str:
    """A library's error message on one line. The middle of a long one is cut, because it is usually the value."""
    from tare.system.redaction import redact

    message = message_of(error)
    if len(message) > LONGEST_VALUE:
        message = f"{message[: LONGEST_VALUE // 2]} ... {message[-LONGEST_VALUE // 2 :]}"
    text = redact(" ".join(message.split())) or type(error).__name__
    return text if len(text) <= 250 else f"{text[:120]} ... {text[-120:]}"
