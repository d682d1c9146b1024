"""The journal of a bisection: a line for each run or skip, on disk before the next begins; --resume reads it."""

import secrets
from pathlib import Path

import msgspec

from tare.bisect.spec import BisectSpec
from tare.bisect.workspaces import tare_fingerprint
from tare.errors import BadInput, brief
from tare.guard.changes import CallCounts
from tare.guard.comparable import refuse_differences, split_differences
from tare.records.environment import Environment
from tare.system.journals import AppendOnlyFile
from tare.system.locks import try_lock
from tare.system.private_files import make_private_folder


class CandidateRun(msgspec.Struct, tag="run", kw_only=True, frozen=True):
    candidate: int
    label: str
    value: float
    seconds: float
    figures: dict[str, float] = {}
    calls: CallCounts = {}
    environment: Environment | None = None


class SkippedCandidate(msgspec.Struct, tag="skip", kw_only=True, frozen=True):
    """A candidate that could not be built or run, and why."""

    candidate: int
    label: str
    stage: str
    reason: str


class JournalHeader(msgspec.Struct, tag="head", kw_only=True, frozen=True):
    """`tare` is the fingerprint of the tare that measures; empty where a command does. `seed` decides the order of
    the runs."""

    spec: BisectSpec
    tare: str
    machine: Environment
    seed: int


JournalEntry = CandidateRun | SkippedCandidate
_decoder = msgspec.json.Decoder(JournalHeader | CandidateRun | SkippedCandidate)


class BisectJournal(AppendOnlyFile):
    """Append-only and locked. Refuses to resume on another machine, because times of two machines do not
    compare."""

    def __init__(self, folder: Path, spec: BisectSpec, machine: Environment, resume: bool) -> None:
        make_private_folder(folder)
        self.path = folder / "journal.jsonl"
        super().__init__(self.path)
        self.entries: list[JournalEntry] = []
        # Drawn anew for every bisection: an order that can be foreseen is no protection against the machine's
        # rhythm.
        self.seed = secrets.randbits(32)
        tare = tare_fingerprint() if spec.uses_tare else ""
        header = JournalHeader(spec=spec.as_shown(), tare=tare, machine=machine, seed=self.seed)
        try:
            if try_lock(self.fileno()) is False:
                raise BadInput(f"another tare is at work on this bisection ({self.path})")
            if not resume:
                self.truncate(0)
            self._load(header)
        except BadInput:
            self.close()
            raise

    def add(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        self.append(msgspec.json.encode(entry))

    def _load(self, header: JournalHeader) -> None:
        lines = self.lines()
        if not lines:
            self.append(msgspec.json.encode(header))
        for number, line in enumerate(lines, 1):
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                raise BadInput(
                    f"{self.path}, line {number}, cannot be read: {brief(error)}; run without --resume"
                ) from None
            if not isinstance(entry, JournalHeader):
                self.entries.append(entry)
            elif entry.tare != header.tare:
                raise BadInput(f"{self.path} was measured by another tare than this; run without --resume")
            else:
                self.seed = entry.seed
                refuse_differences(
                    split_differences([(entry.machine, header.machine)])[1],
                    f"{self.path} was measured in another environment",
                    "resume there, or run without --resume to measure all of it here",
                )
