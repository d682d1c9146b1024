"""Counting frames: every rung makes one step in a process of its own, with the counter preloaded."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError, brief
from tare.execute.tasks import COUNTED, ErrandExecutor
from tare.records.record import Failure
from tare.rungs.native.build import executable, missing_tools
from tare.trace.call_stack import Stack, choose, read_stacks
from tare.worker.call_stack import PYTHON_FRAMES

LIBRARY = "libtare-frames.so"


class Depth(msgspec.Struct, kw_only=True):
    """What was found on one rung: the counted call, and how deep the step's calls of the same kind are. No
    stack where the step called no vendor library (its kernels were generated, say)."""

    case: Case
    stack: Stack | None = None
    # How many calls of this kind the step makes, and the fewest and most frames over them.
    calls: int = 0
    least: int = 0
    most: int = 0
    # Entries that could not be watched, with the reason.
    blind: dict[str, str] = {}
    failure: Failure | None = None


def count_frames(
    executor: ErrandExecutor, cases: Sequence[Case], counter: str, options: Options, keep: Callable[[Depth], None]
) -> None:
    """Each is kept as soon as it is counted, `options.warm` of them at a time: an interruption loses none."""
    done = 0

    def taken(case: Case, what: Path | Failure) -> None:
        nonlocal done
        done += 1
        keep(_depth(case, what))
        executor.say(f"counting frames: {done} of {len(cases)}")

    executor.say(f"counting frames: 0 of {len(cases)}")
    executor.take_stacks(cases, counter, options, taken)


def build_counter(executor: ErrandExecutor) -> str:
    if not sys.platform.startswith("linux"):
        raise TareError("the counter of frames is a preloaded library, written for Linux")
    lacking = missing_tools()
    if lacking:
        raise TareError(f"the counter of frames is built on first use, which needs {lacking}")
    return str(executable(LIBRARY, lambda: executor.say("building the native rungs, once")))


def _depth(case: Case, folder: Path | Failure) -> Depth:
    if isinstance(folder, Failure):
        return Depth(case=case, failure=folder)
    try:
        stacks, blind = read_stacks(folder / COUNTED, folder / PYTHON_FRAMES)
    except (OSError, IndexError, msgspec.MsgspecError) as error:
        message = f"what the counter wrote cannot be read: {brief(error)}"
        return Depth(case=case, failure=Failure(cause="no-result", message=message))
    chosen = choose(stacks)
    if chosen is None:
        return Depth(case=case, blind=blind)
    alike = [stack.total for stack in stacks if stack.anchored and stack.kind == chosen.kind]
    return Depth(case=case, stack=chosen, calls=len(alike), least=min(alike), most=max(alike), blind=blind)
