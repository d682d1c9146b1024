"""One round of a command: it is run over and over, each time as a new process, and timed by a process timer."""

import contextlib
import marshal
import math
import os
import selectors
import shlex
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from typing import IO

from tare.errors import TareError
from tare.measure.clock import Block, spin_ns
from tare.measure.sampler import sample_runs
from tare.protocol.jobs import CommandJob
from tare.protocol.messages import Checked, Failed, Measured, Prepared, Send, Stage, Weighed
from tare.records.record import Cause, Failure, HostMemory, MemoryTrace, Parity, SeriesKind
from tare.system import process_timer
from tare.system.process_timer import ProcessRun
from tare.system.processes import signal_name
from tare.system.redaction import remember_secret
from tare.system.text import last_lines
from tare.system.variables import shown_arguments

NOTHING_TO_COMPARE = "the output of a command is not looked at"
# Of the standard error of a run.
STDERR_TAIL = 32 * 1024
# CPU times among the counts of a round: the median of its runs, in microseconds.
CPU_TIMES = ("user_us", "system_us")
# The largest process is all that the kernel tells: memory of processes that ran at the same time is not added up.
METHOD = "ru_maxrss: the largest process of a run, of those waited for"


class CommandFailed(Exception):
    """A run of the command that does not count as one."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def measure_command(job: CommandJob, send: Send) -> Failed | None:
    """Runs the command once to warm up, then as often as the budget and the width say."""
    shown = shown_arguments(job.arguments)
    for argument, public in zip(job.arguments, shown, strict=True):
        # The command may repeat it in an error message, without the name of its option.
        if argument != public:
            remember_secret(argument)
            remember_secret(argument.partition("=")[2])
    # Its first run is the warm-up; nothing is prepared.
    send(Prepared(build_s=0.0, prepare_s=0.0, cache="none", flags={"command": shlex.join(shown)}))
    spin_before = spin_ns()
    send(Stage("sample"))
    try:
        with _command_runs(job) as runs:
            sample_runs(runs, job.budget_s, job.width, lambda series: send(Measured(series)))
    except CommandFailed as error:
        return Failed(error.failure)
    first, *others = runs.finished
    floor = max(run.floor for run in runs.finished)
    peak = max(run.peak for run in others)
    notes = []
    if peak <= floor:
        notes.append(f"its peak memory is at most {math.ceil(peak / 2**20)} MiB: a smaller one cannot be told")
    send(
        Weighed(
            host=HostMemory(peak=peak, prepare_peak=first.peak, start=floor, method=METHOD),
            memory=MemoryTrace(at_ns=[run.at_ns for run in others], host=[run.peak for run in others]),
            cpu_pace=spin_before / max(spin_ns(), 1),
            counts={name: round(median(getattr(run, name) for run in others)) for name in CPU_TIMES},
            notes=notes,
        )
    )
    send(Checked(Parity(status="unchecked", reason=NOTHING_TO_COMPARE)))
    return None


class CommandRuns:
    """Times runs of a command (tare.measure.sampler.BlockTimer). A run that fails raises CommandFailed."""

    overlaps = False

    def __init__(self, job: CommandJob, timer: subprocess.Popen[bytes], errors: int) -> None:
        self.finished: list[ProcessRun] = []
        self._job, self._timer, self._errors = job, timer, errors
        assert timer.stdin is not None
        assert timer.stdout is not None
        self._requests: IO[bytes] = timer.stdin
        self._answers: IO[bytes] = timer.stdout
        marshal.dump([os.fsencode(argument) for argument in job.arguments], self._requests)

    def begin(self, kind: SeriesKind) -> None: ...

    def time(self, steps: int) -> Block:
        """One run is one step: a block of several would hide how runs differ."""
        assert steps == 1
        self._requests.write(b"\n")
        self._requests.flush()
        errors = self._read_errors()
        answer = self._answers.readline()
        if not answer:
            raise TareError(f"the process that times the command ended (exit code {self._timer.wait()})")
        run = ProcessRun(*map(int, answer.split()))
        if failure := self._failure(run, errors):
            raise CommandFailed(failure)
        self.finished.append(run)
        return Block(run.at_ns, run.wall_ns, None, None)

    def _read_errors(self) -> str:
        """The end of what the command writes to its standard error, until the run has ended."""
        tail = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._errors, selectors.EVENT_READ)
            selector.register(self._answers, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                # A process that has escaped may write for ever: the answer ends this.
                if self._errors in ready:
                    tail = (tail + os.read(self._errors, 1 << 16))[-STDERR_TAIL:]
                if self._answers.fileno() in ready:
                    break
        with contextlib.suppress(BlockingIOError):
            tail += os.read(self._errors, 1 << 16)
        return tail[-STDERR_TAIL:].decode(errors="replace")

    def _failure(self, run: ProcessRun, errors: str) -> Failure | None:
        cause: Cause
        if run.error:
            return Failure(cause="not-installed", message=f"it cannot be started: {os.strerror(run.error)}")
        if run.status in self._job.allowed:
            return None
        if run.status < 0:
            cause, ending = "signal", f"ended by {signal_name(-run.status)}"
        else:
            cause, ending = "exit-status", f"exit status {run.status}"
        # The first run is the warm-up.
        place = f" in run {len(self.finished) + 1}" if self.finished else ""
        words = last_lines(errors)
        message = f"{ending}{place}: {words or 'nothing on standard error'}"
        return Failure(cause=cause, message=message, detail=errors)


@contextlib.contextmanager
def _command_runs(job: CommandJob) -> Iterator[CommandRuns]:
    """The timer ends with the context. A worker that is killed takes it along: its reaper sees to that."""
    errors, errors_end = os.pipe()
    os.set_blocking(errors, False)
    try:
        timer = subprocess.Popen(
            [sys.executable, "-I", "-S", process_timer.__file__, str(errors_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[errors_end],
        )
        with timer:
            yield CommandRuns(job, timer, errors)
    finally:
        os.close(errors)
        os.close(errors_end)
