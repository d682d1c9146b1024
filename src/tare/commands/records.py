"""Records in a store and in files: found, named, imported. Nothing here measures."""

from pathlib import Path
from typing import Literal

import msgspec

from tare.errors import BadInput
from tare.records.codec import decode_record, decode_records, names_file
from tare.records.record import Record
from tare.store.database import Store, portions
from tare.store.foreign import ForeignPoint, Imported, add_foreign, decode_foreign, find_foreign
from tare.store.selection import (
    auxiliary_runs,
    find_in_files,
    find_in_store,
    may_be_field,
    newest_in_each_environment,
)
from tare.system.bounded_files import read_json, read_lines


def find_records(terms: list[str], where: str | None, latest: bool = False) -> list[Record]:
    """The stored records that match the terms (BadInput if none does), all of them for no terms; with `latest`,
    the newest of each case and environment. Where terms name exported files, the other terms choose among the
    records in those files."""
    in_files = find_in_files(terms)
    if in_files is not None:
        records = in_files.records
    else:
        with Store(where, reading=True) as store:
            records = find_in_store(terms, store).records
        records = newest_in_each_environment(records) if latest else records
    if terms and not records:
        raise BadInput(f"no record matches {' '.join(terms)}; tare list records")
    return records


def find_series(terms: list[str], where: str | None) -> list[Record]:
    """The records that make series over time: those of the runs that a user asked for. Files of records do not
    say what their runs were, and all of their records are taken."""
    in_files = find_in_files(terms)
    if in_files is not None:
        return in_files.records
    with Store(where, reading=True) as store:
        auxiliary = auxiliary_runs(store)
        return [record for record in find_in_store(terms, store).records if record.run not in auxiliary]


def find_foreign_points(terms: list[str], where: str | None) -> list[ForeignPoint]:
    """Points of other tools by their benchmarks' names. A file of records or a field of a case matches none."""
    if any(names_file(term) or _names_field(term) for term in terms):
        return []
    with Store(where, reading=True) as store:
        return find_foreign(store, terms)


def _names_field(term: str) -> bool:
    name, equals, value = term.partition("=")
    return bool(equals) and "/" not in value and may_be_field(name)


class ImportedFile(msgspec.Struct):
    """`kind` says what was in the file: records of tare, or points of another tool's series."""

    file: str
    source: str
    kind: Literal["records", "points"]
    found: int
    new: int
    skipped: dict[str, str]


def import_files(files: list[Path], where: str | None) -> list[ImportedFile]:
    """Imports all of the files, or none if one cannot be read. A file with one record a line may be larger than
    memory: it is imported up to the first line that cannot be read."""
    contents: dict[str, list[Record] | Imported] = {}
    of_lines = [path for path in files if path.name.endswith((".jsonl", ".jsonl.gz"))]
    for path in files:
        if path in of_lines:
            continue
        data, name = read_json(path), str(path)
        # tare's own files are a JSON list, those of every other tool are an object.
        contents[name] = decode_records(data, name) if data.lstrip()[:1] == b"[" else decode_foreign(data, name)
    with Store(where) as store:
        imported = [_import(store, name, content) for name, content in contents.items()]
        return imported + [_import_lines(store, path) for path in of_lines]


def _import_lines(store: Store, path: Path) -> ImportedFile:
    records = (
        decode_record(line, f"{path}, line {number}") for number, line in enumerate(read_lines(path), start=1)
    )
    total = ImportedFile(str(path), "tare", "records", 0, 0, {})
    for portion in portions(records):
        part = _import(store, total.file, portion)
        total.found += part.found
        total.new += part.new
        total.skipped |= part.skipped
    return total


def _import(store: Store, name: str, content: list[Record] | Imported) -> ImportedFile:
    if isinstance(content, Imported):
        new = add_foreign(store, content.points)
        return ImportedFile(name, content.source, "points", len(content.points), new, content.skipped)
    new, refused = store.add(content)
    skipped = {record.id: f"run {record.run} has another record of {record.case.key}" for record in refused}
    return ImportedFile(name, "tare", "records", len(content), new, skipped)
