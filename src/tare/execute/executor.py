"""The local executor: a job becomes a worker, a watched worker becomes a round."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.ladder import reference_case
from tare.execute.launch import ForkLauncher, Launcher, SpawnLauncher
from tare.execute.lock import machine_lock
from tare.execute.outcome import failure_of, round_of
from tare.execute.protocol import Job, Message, Probed, ProbeJob, ReferenceJob, RoundJob, Stage
from tare.execute.supervise import Ending, Watchman, supervise
from tare.home import home
from tare.measure.nvml import Gpu
from tare.measure.telemetry import Watch
from tare.records.record import Failure, Parity, Round

OnStage = Callable[[str], None]


class Executor(Protocol):
    """What the runner needs of whatever runs cases; tests have a twin that measures nothing."""

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round: ...


def make_launcher(isolation: str, preload: tuple[str, ...] = ()) -> Launcher:
    return ForkLauncher(preload) if isolation == "fork" else SpawnLauncher()


class LocalExecutor:
    def __init__(self, launcher: Launcher, scratch: Path, on_stage: OnStage = lambda _: None) -> None:
        self._launcher = launcher
        self._scratch = scratch
        self._on_stage = on_stage
        self._references: dict[str, Failure | None] = {}
        self._gpus: dict[str, str] = {}

    def probe(self) -> Probed:
        """What this machine has; the first thing to ask."""
        ending, _ = self._supervise(ProbeJob(), Options(), "cpu")
        found = next((m for m in ending.messages if isinstance(m, Probed)), None)
        if found is None:
            failure = failure_of(ending, Options().timeout)
            raise TareError(f"cannot look at this machine: {failure.message if failure else 'no answer'}")
        self._gpus = found.gpus
        return found

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        """One fresh process that measures one case. `check` asks for the proof of parity as well."""
        check = check and options.parity
        no_reference = self._need_reference(case, options) if check else None
        job = RoundJob(
            case=case,
            budget_s=options.round_budget,
            width=options.width,
            reference=str(self._reference_folder(case)) if check and no_reference is None else None,
            cache=str(self._scratch / "cache" / _digest(case.key)),
        )
        started = datetime.now(UTC).isoformat(timespec="seconds")
        ending, watch = self._supervise(job, options, case.device)
        done = round_of(ending, index, started, self._launcher.isolation, options.timeout)
        return msgspec.structs.replace(
            done,
            telemetry=watch.summary(done, ending.pid),
            throttled=watch.throttled(done.series),
            parity=done.parity if no_reference is None else _unchecked(no_reference),
        )

    def close(self) -> None:
        self._launcher.close()

    def _need_reference(self, case: Case, options: Options) -> Failure | None:
        """Makes the reference of a case once a run; a Failure where it cannot be made."""
        wanted = reference_case(case)
        if wanted.key not in self._references:
            self._on_stage("reference")
            job = ReferenceJob(case=wanted, folder=str(self._reference_folder(case)))
            ending, _ = self._supervise(job, options, case.device)
            self._references[wanted.key] = failure_of(ending, options.timeout)
        return self._references[wanted.key]

    def _reference_folder(self, case: Case) -> Path:
        return self._scratch / "reference" / _digest(reference_case(case).key)

    def _supervise(self, job: Job, options: Options, device: str) -> tuple[Ending, Watch]:
        pci = self._gpus.get(device if ":" in device else f"{device}:0")
        gpu = Gpu.open(pci) if pci else None

        def tell(message: Message) -> None:
            if isinstance(message, Stage):
                self._on_stage(message.name)

        with machine_lock(home(), lambda: self._on_stage("waiting for another tare")):
            watch = Watch(gpu.read if gpu else None)
            watchman = Watchman(options.timeout, options.memory, watch.poll, tell)
            return supervise(self._launcher.launch(job), watchman), watch


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _unchecked(failure: Failure) -> Parity:
    return Parity(status="unchecked", reason=f"the reference failed: {failure.cause}, {failure.message}")
