"""Files written whole or not at all."""

import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path

from tare.errors import BadInput

# The longest that a file's name may be on most file systems, less what replacing() puts around it.
LONGEST_NAME = 255 - 30


def write_whole(path: Path, text: str) -> None:
    """Compressed where the name ends in .gz, as every reader of ours expects of it."""
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        with replacing(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what takes the place of `path` at the end: a reader sees the old file or the new, no half."""
    if _is_special(path):
        # A pipe or /dev/stdout is written to, never replaced; a folder says that it is one.
        yield path
        return
    path = path.resolve()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def _is_special(path: Path) -> bool:
    """Whether it is there and no plain file."""
    return path.exists() and not path.is_file()


def check_writable(path: Path) -> None:
    """Refuses a place where nothing can be written, before the work whose result should go there."""
    folder = path.resolve().parent
    why = ""
    if path.is_dir():
        why = "it is a folder"
    elif not folder.is_dir():
        why = f"there is no folder {folder}"
    elif not os.access(path if _is_special(path) else folder, os.W_OK):
        why = f"{folder} is not yours to write to"
    if why:
        raise BadInput(f"cannot write {path}: {why}")


def check_apart(paths: Iterable[Path], sources: Iterable[Path]) -> None:
    """Refuses a file that is also read, or that a second result would go to: one of the two would be lost."""
    taken = {source.resolve(): "it is what is read" for source in sources}
    for path in paths:
        if path.resolve() in taken and not _is_special(path):
            raise BadInput(f"cannot write {path}: {taken[path.resolve()]}; name another file")
        taken[path.resolve()] = "two options name it"


def several_files(path: Path, parts: Sequence[Sequence[str]]) -> list[Path]:
    """A file for each: the path itself for one; for several its name and as many of the parts of each, from the
    left, as tell it from the others: `out.svg` becomes `out-mlp.svg` and `out-dqn.svg`. A pipe takes them all."""
    if len(parts) == 1 or _is_special(path):
        return [path] * len(parts)
    names = [""] * len(parts)
    for column in zip_longest(*parts, fillvalue=""):
        longer = ["-".join(filter(None, pair)) for pair in zip(names, column, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    ending = path.suffix if path.suffix != ".gz" else Path(path.stem).suffix + path.suffix
    stem = path.name.removesuffix(ending)
    made: list[Path] = []
    for name in names:
        fitting = f"{stem}-{re.sub(r'[^A-Za-z0-9_.=+]+', '-', name)}"[: LONGEST_NAME - len(ending)]
        found = path.with_name(fitting + ending)
        if found in made:
            found = path.with_name(f"{fitting}-{len(made) + 1}{ending}")
        made.append(found)
    return made
