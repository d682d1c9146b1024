"""Rounds that the store could not take (its disk is full): written elsewhere, and taken in by --resume."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.errors import BadInput
from tare.records.codec import UNREADABLE, decode_round, encode
from tare.records.record import Round


class _Spilled(msgspec.Struct):
    key: str
    round: str


_decoder = msgspec.json.Decoder(_Spilled)


def spill(store: str, run: str, case: Case, done: Round) -> str:
    """Keeps a round in the first place that has room, and says where that is."""
    line = encode(_Spilled(case.key, encode(done).decode())) + b"\n"
    for path in spill_places(store, run):
        try:
            with path.open("ab", buffering=0) as file:
                end = file.tell()
                if file.write(line) == len(line):
                    return str(path)
                # Half a line would spoil the one that is appended to it next time.
                file.truncate(end)
        except OSError:
            continue
    return "memory only: no folder can be written"


def spilled(store: str, run: str) -> Iterator[tuple[Case, Round]]:
    """What was kept so. A file goes when all of it has been taken; one with a line that cannot be read stays for
    its owner."""
    for path in spill_places(store, run):
        if not _is_file(path):
            continue
        whole = True
        for line in path.read_bytes().splitlines():
            try:
                entry = _decoder.decode(line)
                case, done = Case.parse(entry.key), decode_round(entry.round, str(path))
            except (*UNREADABLE, BadInput):
                whole = False
                continue
            yield case, done
        if whole:
            path.unlink()


def spill_places(store: str, run: str) -> Iterator[Path]:
    """One after the other, when it is asked for: to find the folder for temporary files Python writes to it, which
    fails where every disk but the home folder's is full."""
    finders: list[Callable[[], Path]] = [lambda: Path(tempfile.gettempdir()), Path.home]
    if "://" not in store:
        finders.insert(0, lambda: Path(store).expanduser().resolve().parent)
    for find in finders:
        try:
            folder = find()
        except (OSError, RuntimeError):
            # No folder for temporary files, or a user who has no home.
            continue
        yield folder / f"tare-{file_name(run)}.spill.jsonl"


def file_name(run: str) -> str:
    """A run's id as a part of a file's name. A damaged store can say anything, even bytes; that names no file."""
    if isinstance(run, str) and run.isalnum() and len(run) <= 32:
        return run
    return hashlib.sha256(repr(run).encode()).hexdigest()[:12]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
