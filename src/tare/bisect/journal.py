"""The journal of a bisection: a line a run or skip, on disk before the next begins, and read back by --resume."""

from pathlib import Path
from types import TracebackType

import msgspec

from tare.bisect.spec import Spec
from tare.bisect.this_tare import tare_mark
from tare.errors import BadInput, brief
from tare.guard.comparable import hindering, refuse
from tare.records.environment import Environment
from tare.system.journals import AppendOnlyFile
from tare.system.locks import try_lock


class Run(msgspec.Struct, tag="run", kw_only=True, frozen=True):
    candidate: int
    label: str
    value: float
    seconds: float
    figures: dict[str, float] = {}
    # How often a step called each operator and launched each kernel.
    operators: dict[str, int] = {}
    kernels: dict[str, int] = {}
    environment: Environment | None = None


class Skipped(msgspec.Struct, tag="skip", kw_only=True, frozen=True):
    """A candidate that could not be built or run, and why."""

    candidate: int
    label: str
    stage: str
    reason: str


class Head(msgspec.Struct, tag="head", kw_only=True, frozen=True):
    """`tare` is the mark of the tare that measured the cases; none where a command did. `machine` is where all of
    it is measured; journals of earlier versions do not say."""

    spec: Spec
    tare: str = ""
    machine: Environment | None = None


Entry = Run | Skipped
_decoder = msgspec.json.Decoder(Head | Run | Skipped)


class BisectJournal:
    """Append-only. The kernel releases its lock when the holder dies, however that happens. `here` is this
    machine: times of two are never mixed."""

    def __init__(self, folder: Path, spec: Spec, resume: bool, here: Environment | None = None) -> None:
        self.path = folder / "journal.jsonl"
        self.entries: list[Entry] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._file = AppendOnlyFile(self.path)
        if try_lock(self._file.fileno()) is False:
            self._file.close()
            raise BadInput(f"another tare is at work on this bisection ({self.path})")
        if not resume:
            self._file.clear()
        try:
            where_known = self._load(spec, here)
        except BadInput:
            self._file.close()
            raise
        if not self._file.lines() or (here and not where_known):
            self._write(Head(spec=spec, tare=tare_mark() if spec.case else "", machine=here))

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._write(entry)

    def __enter__(self) -> "BisectJournal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _write(self, entry: Head | Entry) -> None:
        self._file.append(msgspec.json.encode(entry))

    def _load(self, spec: Spec, here: Environment | None) -> bool:
        """Whether the journal says where it is measured."""
        where_known = False
        for number, line in enumerate(self._file.lines(), 1):
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                raise BadInput(
                    f"{self.path}, line {number}, cannot be read: {brief(error)}; run without --resume"
                ) from None
            if isinstance(entry, Head):
                if entry.tare and entry.tare != tare_mark():
                    raise BadInput(f"{self.path} was measured by another tare than this; run without --resume")
                if entry.machine and here:
                    where_known = True
                    refuse(
                        hindering(entry.machine, here),
                        f"{self.path} was measured in another environment",
                        "go on there, or run without --resume to measure all of it here",
                    )
                continue
            if not 0 <= entry.candidate <= spec.last:
                raise BadInput(
                    f"{self.path}, line {number}, names a candidate {entry.candidate} that is not there"
                )
            self.entries.append(entry)
        return where_known
