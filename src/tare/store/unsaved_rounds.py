"""Rounds that the store could not save, for example because its disk is full. They are written to another folder,
and --resume loads them."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.errors import BadInput
from tare.records.codec import UNREADABLE, decode_round, encode
from tare.records.record import Round
from tare.system.journals import AppendOnlyFile


class UnsavedRound(msgspec.Struct):
    key: str
    round: str


_decoder = msgspec.json.Decoder(UnsavedRound)


def write_unsaved(store: str, run: str, case: Case, round_: Round) -> str:
    """Appends the round to a file in the first folder that has room; returns the file's path."""
    line = encode(UnsavedRound(case.key, encode(round_).decode()))
    for path in unsaved_paths(store, run):
        try:
            with AppendOnlyFile(path) as file:
                file.append(line)
                return str(path)
        except OSError:
            continue
    return "memory only: no folder can be written"


def read_unsaved(store: str, run: str) -> Iterator[tuple[Case, Round]]:
    """The rounds that were written. A file is removed once all of it was read; a file with a line that cannot be
    read stays."""
    for path in unsaved_paths(store, run):
        if not _is_file(path):
            continue
        all_read = True
        for line in path.read_bytes().splitlines():
            try:
                entry = _decoder.decode(line)
                case, round_ = Case.parse(entry.key), decode_round(entry.round, str(path))
            except (*UNREADABLE, BadInput):
                all_read = False
                continue
            yield case, round_
        if all_read:
            path.unlink()


def unsaved_paths(store: str, run: str) -> Iterator[Path]:
    """The candidate files, best first. They are computed lazily: tempfile.gettempdir() writes a test file, which
    fails where every disk but that of the home folder is full."""
    folders: list[Callable[[], Path]] = [lambda: Path(tempfile.gettempdir()), Path.home]
    if "://" not in store:
        folders.insert(0, lambda: Path(store).expanduser().resolve().parent)
    for folder in folders:
        try:
            yield folder() / f"tare-{file_name(run)}.unsaved.jsonl"
        except (OSError, RuntimeError):
            # There is no folder for temporary files, or the user has no home folder.
            continue


def file_name(run: str) -> str:
    """A run's id as part of a file name. In a damaged store the id can be anything, even bytes."""
    if isinstance(run, str) and run.isalnum() and len(run) <= 32:
        return run
    return hashlib.sha256(repr(run).encode()).hexdigest()[:12]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
