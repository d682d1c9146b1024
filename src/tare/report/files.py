"""Files that are written whole or not at all."""

import gzip
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path

from tare.errors import BadInput
from tare.system.private_files import FILE_MODE

# The longest name of a file on most file systems, less what replacing() adds to it.
LONGEST_NAME = 255 - 30


def write_whole(path: Path, text: str) -> None:
    """Writes the file, compressed if its name ends in .gz."""
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        with replacing(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """As `write_whole`, for a text that need not fit into memory."""
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            if path.suffix == ".gz":
                # Without a name and a time in it, equal contents are equal files.
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    packed.writelines(lines)
            else:
                file.writelines(lines)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[Path]:
    """A temporary file that takes the place of `path` at the end: a reader sees the old file or the new one. It
    has the mode of the old file; a new one is for its owner alone if it is `private`."""
    if _is_special(path):
        # A pipe or /dev/stdout is written to, never replaced. Writing to a folder fails with the right message.
        yield path
        return
    path = path.resolve()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        _create(partial, path, FILE_MODE if private else 0o666)
        yield partial
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def _create(partial: Path, path: Path, mode: int) -> None:
    # What a killed process with the same pid has left. Another user's file or link cannot be removed, and then the
    # file cannot be created.
    with suppress(OSError):
        partial.unlink()
    before = path.stat().st_mode if path.exists() else None
    descriptor = os.open(
        partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE if before else mode
    )
    try:
        if before:
            os.fchmod(descriptor, stat.S_IMODE(before))
    finally:
        os.close(descriptor)


def _is_special(path: Path) -> bool:
    """Whether the path exists and is no regular file."""
    return path.exists() and not path.is_file()


def check_writable(path: Path) -> None:
    """Refuses a file that cannot be written, before the work whose result should go there."""
    folder = path.resolve().parent
    reason = ""
    if path.is_dir():
        reason = "it is a folder"
    elif not folder.is_dir():
        reason = f"there is no folder {folder}"
    elif not os.access(path if _is_special(path) else folder, os.W_OK):
        reason = f"no permission to write to {folder}"
    if reason:
        raise BadInput(f"cannot write {path}: {reason}")


def check_apart(paths: Iterable[Path], sources: Iterable[Path]) -> None:
    """Refuses an output file that is also an input, or that two options name: one of the two would be lost."""
    uses = {source.resolve(): "it is also read" for source in sources}
    for path in paths:
        if path.resolve() in uses and not _is_special(path):
            raise BadInput(f"cannot write {path}: {uses[path.resolve()]}; name another file")
        uses[path.resolve()] = "two options name it"


def several_files(path: Path, parts: Sequence[Sequence[str]]) -> list[Path]:
    """One file for each item: `path` itself if there is one item or it is a pipe. Otherwise the name gets as many
    parts of each item, from the left, as tell it from the others: `out.svg` becomes `out-mlp.svg`,
    `out-dqn.svg`."""
    if len(parts) == 1 or _is_special(path):
        return [path] * len(parts)
    names = [""] * len(parts)
    for column in zip_longest(*parts, fillvalue=""):
        longer = ["-".join(filter(None, pair)) for pair in zip(names, column, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    ending = path.suffix if path.suffix != ".gz" else Path(path.stem).suffix + path.suffix
    stem = path.name.removesuffix(ending)
    files: list[Path] = []
    for name in names:
        cut = f"{stem}-{re.sub(r'[^A-Za-z0-9_.=+]+', '-', name)}"[: LONGEST_NAME - len(ending)]
        file = path.with_name(cut + ending)
        if file in files:
            file = path.with_name(f"{cut}-{len(files) + 1}{ending}")
        files.append(file)
    return files
