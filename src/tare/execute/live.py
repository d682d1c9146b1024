"""Runs a command whose first process with steady steps records some of them (tare.measure.live_recorder).

The command keeps its terminal, its standard input and its process group, so that it behaves as without tare.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from tare.measure import line_marks, live_recorder
from tare.measure.live_recorder import EVENTS, SETTINGS, TRACES

# What the command's Python imports at its start, in the place of the machine's own module of this name, which it
# imports in turn. The path is then as the script would have it.
SITECUSTOMIZE = """\
import importlib.util, os, sys
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]
try:
    _spec = importlib.util.spec_from_file_location("_tare_live_recorder", os.path.join(_here, "live_recorder.py"))
    _module = sys.modules["_tare_live_recorder"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    _module.install(_here)
except Exception as error:
    # The command runs as without tare, whatever is wrong with the recorder.
    print(f"tare: the recorder does not start: {type(error).__name__}: {error}", file=sys.stderr)
_self = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError as error:
    sys.modules["sitecustomize"] = _self
    if error.name != "sitecustomize":
        raise
"""
POLL_S = 0.2
# A command that is asked to end has so long before it is asked with the next signal.
GRACE_S = 10.0


class LiveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended (`status` as subprocess has it), what its processes said, and the traces by whether
    they have stacks. `stopped` if tare ended it after the recording, `interrupted` if somebody else did."""

    status: int
    events: list[dict[str, Any]]
    traces: dict[bool, Path]
    stopped: bool
    interrupted: bool

    def find(self, event: str) -> dict[str, Any] | None:
        return next((each for each in self.events if each.get("event") == event), None)


def run_live(
    arguments: Sequence[str],
    folder: Path,
    settings: dict[str, Any],
    on_recorded: Callable[[dict[bool, Path]], None],
    stop: bool = False,
    keep_stdout: bool = False,
) -> LiveOutcome:
    """Runs the command to its end, or `stop`s it after the recording. `on_recorded` is called as soon as all is
    recorded. `keep_stdout` for the output of tare: what the command prints goes to standard error."""
    (folder / SETTINGS).write_text(json.dumps(settings))
    (folder / EVENTS).touch(0o600)
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    for module in (live_recorder, line_marks):
        source = Path(str(module.__file__))
        shutil.copyfile(source, folder / source.name)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    stdout = sys.stderr.fileno() if keep_stdout else None
    with subprocess.Popen(list(arguments), env=environment, stdout=stdout) as child, SignalRelay(child) as signals:
        told = stopped = False
        while (status := _wait(child)) is None:
            if not told and _has(folder, "done"):
                told = True
                on_recorded(_traces(folder))
                if stop:
                    stopped = True
                    _end(child, folder)
    return LiveOutcome(
        status=status,
        events=_events(folder),
        traces=_traces(folder),
        stopped=stopped,
        interrupted=signals.received and not stopped,
    )


class SignalRelay:
    """Passes the signals that would end tare on to the command, for whose end tare waits. The terminal sends
    Ctrl-C to both by itself."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child, self.received = child, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "SignalRelay":
        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.signal(n, self._pass_on) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _pass_on(self, number: int, frame: object) -> None:  # noqa: ARG002
        self.received = True
        if number != signal.SIGINT or not _in_foreground():
            self._child.send_signal(number)


def _in_foreground() -> bool:
    """Whether Ctrl-C at the terminal reaches this process and the command alike."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return child.wait(POLL_S)
    return None


def _end(child: subprocess.Popen[bytes], folder: Path) -> None:
    """Asks the command and the recorded process to end as Ctrl-C would; later all of its processes, and at last
    kills them."""
    recorded = [event["pid"] for event in _events(folder) if event.get("event") == "done"]
    family = _family(child)
    first = [each for each in family if each.pid in (child.pid, *recorded)]
    for number, processes in ((signal.SIGINT, first), (signal.SIGTERM, family), (signal.SIGKILL, family)):
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        others = [process for process in family if process.pid != child.pid and process.is_running()]
        if child.poll() is not None and not others:
            return


def _family(child: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        process = psutil.Process(child.pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _traces(folder: Path) -> dict[bool, Path]:
    return {stacks: path for stacks, name in TRACES.items() if (path := folder / name).exists()}


def _events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / EVENTS).read_text().splitlines()]


def _has(folder: Path, event: str) -> bool:
    return any(each["event"] == event for each in _events(folder))
