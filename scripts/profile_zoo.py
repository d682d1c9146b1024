"""Traces of the zoo's published records, to be explained elsewhere: all that a breakdown needs of a borrowed GPU.

python scripts/profile_zoo.py RECORDS.json.gz FOLDER OUT SECONDS [WORKLOAD...]

Profiles each record, or those of these workloads, for so many seconds, and packs the traces into OUT: at most 4
archives of 15 MiB (as much as comes back from the machine at once) with WORKLOAD.json.xz, a large one in pieces
(WORKLOAD.json.xz.0, .1, ...: `cat` makes it whole). What was profiled and packed is in FOLDER, and called again it
goes on from there; for no seconds it only packs what did not fit before.

At home, where `tare peaks` of such a GPU are known: unpack them, `tare explain *.json --json >EXPLAINED.json`, and
`scripts/breakdown_table.py EXPLAINED.json KEPT`.
"""

import gzip
import lzma
import shutil
import sys
import tarfile
import time
from multiprocessing import Pool
from pathlib import Path

from tare.commands.traces import profile_case
from tare.errors import TareError
from tare.execute.preload import preload_of_cases
from tare.execute.session import open_executor
from tare.records.codec import read_records
from tare.records.environment import Environment
from tare.records.figures import gross
from tare.records.record import Record

ARCHIVES, ARCHIVE_BYTES = 4, 15 << 20


def main() -> None:
    source, folder, out, seconds = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4])
    wanted = set(sys.argv[5:])
    folder.mkdir(parents=True, exist_ok=True)
    records = [one for one in read_records(source) if not wanted or one.case.workload in wanted]
    try:
        if seconds > 0:
            profile([one for one in records if not trace_of(folder, one).exists()], folder, seconds)
    finally:
        pack(folder, out)


def trace_of(folder: Path, record: Record) -> Path:
    return folder / f"{record.case.workload}.json.gz"


def profile(records: list[Record], folder: Path, seconds: float) -> None:
    began = time.monotonic()
    with open_executor("fork", preload=preload_of_cases([one.case for one in records])) as executor:
        here = executor.probe().environment
        for record in records:
            if time.monotonic() - began > seconds:
                return
            if alike(record.environment) != alike(here):
                raise SystemExit(f"{record.case.key} was measured on another GPU or with another torch")
            step, path = gross(record), trace_of(folder, record)
            gross_ns = round(step.mid * 1e9) if step else None
            try:
                found = profile_case(executor, record.case, record.id, stacks=False, count=True, gross_ns=gross_ns)
            except TareError as error:
                print(f"{record.case.workload}: {error}", flush=True)
                continue
            shutil.move(found.trace, path)
            print(f"{time.monotonic() - began:6.1f} s {path.name} {path.stat().st_size >> 10} KiB", flush=True)


def alike(environment: Environment) -> tuple[str | None, str | None]:
    return environment.machine.get("gpu"), environment.software.get("torch")


def pack(folder: Path, out: Path) -> None:
    """The traces that were not packed before, as far as they fit. Of a packed one an empty file is left."""
    waiting = [path for path in sorted(folder.glob("*.json.gz")) if path.stat().st_size]
    with Pool() as pool:
        packed = pool.map(repack, waiting, chunksize=1)
    archives: list[list[Path]] = [[] for _ in range(ARCHIVES)]
    fit = []
    for pieces, path in sorted(zip(packed, waiting, strict=True), key=lambda one: -size(one[0])):
        places = [list(archive) for archive in archives]
        if all(place(piece, places) for piece in pieces):
            archives = places
            fit.append(path)
        else:
            print(f"{path.name} does not fit any more", flush=True)
    for index, archive in enumerate(archives):
        if archive:
            with tarfile.open(out / f"{folder.name}-{index}.tar", "w") as file:
                for piece in archive:
                    file.add(piece, piece.name)
    for path in fit:
        path.write_bytes(b"")


def place(piece: Path, archives: list[list[Path]]) -> bool:
    """Into the first with room for it, if there is one."""
    for archive in archives:
        if size(archive) + size([piece]) <= ARCHIVE_BYTES:
            archive.append(piece)
            return True
    return False


def size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def repack(path: Path) -> list[Path]:
    """The trace in a smaller file, or in as many as it takes for each to fit into an archive."""
    small = path.with_suffix(".xz")
    if not small.exists():
        # That which did not fit before is packed already: a large one takes most of a minute.
        partial = path.with_suffix(".partial")
        with gzip.open(path) as read, lzma.open(partial, "wb", preset=3) as written:
            shutil.copyfileobj(read, written, 1 << 20)
        partial.replace(small)
    if small.stat().st_size <= ARCHIVE_BYTES:
        return [small]
    pieces: list[Path] = []
    with small.open("rb") as whole:
        while content := whole.read(ARCHIVE_BYTES):
            pieces.append(small.with_name(f"{small.name}.{len(pieces)}"))
            pieces[-1].write_bytes(content)
    return pieces


if __name__ == "__main__":
    main()
