"""tare explain --live: runs a command, records steady steps of it, and explains them."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from tare.commands.explain import explain_trace
from tare.errors import BadInput, Interrupted, TareError
from tare.execute.live import LiveOutcome, run_live
from tare.measure.peak_store import peaks_of_gpu
from tare.measure.profiler import pack
from tare.report.explain import ExplainReport
from tare.report.numbers import several
from tare.system.home import make_folder, trace_paths
from tare.system.processes import signal_name
from tare.system.scratch import scratch
from tare.system.text import printable
from tare.trace.metadata import device_name
from tare.trace.read import read

LOOKED_FOR = (
    "a step ends where an optimizer of torch.optim has stepped or, without one, where the outermost nn.Module has "
    "returned; steps within a captured CUDA graph or a compiled function are not seen"
)


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    # How many steps are recorded; by default as many as last 0.1 s, 4 to 12.
    steps: int | None = None
    # Whether a second recording finds the source lines.
    stacks: bool = True
    # Whether to end the command once it is recorded.
    stop: bool = False
    # Whether standard output is for one JSON document.
    as_json: bool = False


def explain_live(arguments: Sequence[str], options: LiveOptions) -> ExplainReport:
    """BadInput where the command ended without steps, TareError where it failed before they were recorded."""
    title = _title(arguments)
    kept: dict[bool, Path] = {}
    with scratch() as folder:
        name = f"live-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"

        def keep(traces: dict[bool, Path]) -> None:
            for stacks, path in traces.items():
                kept[stacks] = trace_paths(name)[stacks]
                make_folder(kept[stacks].parent)
                partial = kept[stacks].with_name(f"partial-{kept[stacks].name}")
                pack(path, partial)
                partial.replace(kept[stacks])

        def on_recorded(traces: dict[bool, Path]) -> None:
            keep(traces)
            goes_on = "ending the command" if options.stop else "the command goes on; Ctrl-C ends it"
            print(f"tare: recorded {kept[False]}: {goes_on}", file=sys.stderr, flush=True)

        settings = {"steps": options.steps, "stacks": options.stacks}
        outcome = run_live(arguments, folder, settings, on_recorded, options.stop, options.as_json)
        if not kept and outcome.traces:
            keep(outcome.traces)
            print(f"tare: recorded {kept[False]}", file=sys.stderr, flush=True)
    if False not in kept:
        _refuse(outcome, title)
    trace = read(kept[False])
    gpu = device_name(trace)
    peaks = peaks_of_gpu(gpu) if gpu else None
    stacks = read(kept[True]) if True in kept else None
    explanation, diagnosis = explain_trace(trace, title, peaks, stacks=stacks)
    failure = "" if outcome.stopped or outcome.interrupted else _ending(outcome.status)
    return ExplainReport(
        explanations=[explanation],
        diagnoses=[diagnosis],
        peaks=[peaks] if peaks else [],
        command_failed=failure and f"the command {failure} after it was recorded",
    )


def _title(arguments: Sequence[str]) -> str:
    """The script, or the program where no argument is one. Not its arguments, which may be secret."""
    scripts = (argument for argument in arguments if argument.endswith(".py"))
    return printable(Path(next(scripts, arguments[0])).name, 60)


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal_name(-status)}"
    return f"ended with exit status {status}" if status else ""


def _refuse(outcome: LiveOutcome, title: str) -> NoReturn:
    """Raises what says why nothing was recorded."""
    if outcome.interrupted:
        raise Interrupted(f"{title} had no recorded step yet")
    failure = _ending(outcome.status)
    if failed := outcome.find("failed"):
        why = f"the recording failed: {failed['why']}"
    elif not outcome.find("loaded"):
        why = "no Python that takes PYTHONPATH was started (python -I and -E do not)"
    elif not outcome.find("torch"):
        why = "no process of it imported torch"
    else:
        ended = [event for event in outcome.events if event["event"] == "ended"]
        steps = max((event["optimizer"] or event["forward"] for event in ended), default=0)
        if steps:
            why = f"it ended after {several(steps, 'step')}, too few to get steady and be recorded"
        elif ended or not failure:
            why = f"no steps were seen: {LOOKED_FOR}"
        else:
            why = "its process was gone before it could be recorded"
    if failure:
        raise TareError(f"{title} {failure} and was not recorded: {why}")
    raise BadInput(f"{title} was not recorded: {why}")
