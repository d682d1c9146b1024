"""Records in a store, found and named, and results of other tools, brought in. Nothing here measures."""

from pathlib import Path
from typing import Literal

import msgspec

from tare.errors import BadInput
from tare.records.codec import decode_records, names_file, read_file
from tare.records.newest import newest_in_each_environment
from tare.records.record import Record
from tare.store import selectors
from tare.store.baselines import Baseline, get_baseline, list_baselines, remove_baseline, set_baseline
from tare.store.database import Store
from tare.store.filters import find_by_terms, find_in_files
from tare.store.foreign import add_foreign, find_foreign
from tare.store.importers.point import ForeignPoint, Imported
from tare.store.importers.read import decode_foreign
from tare.store.journal import keep_records
from tare.store.query import may_be_field
from tare.store.selectors import runs_beside, select_records, split_terms


def find_records(terms: list[str], where: str | None, latest: bool = False) -> list[Record]:
    """Stored records that match what the user wrote; all of them for no terms. `latest` keeps the newest of each
    case and environment. Where terms name exported files, the others choose among the records in those."""
    in_files = find_in_files(terms)
    if in_files is not None:
        return in_files.records
    with Store(where, reading=True) as store:
        found = find_by_terms(terms, store).records
    return newest_in_each_environment(found) if latest else found


def no_record(terms: list[str]) -> BadInput:
    return BadInput(f"no record matches {' '.join(terms)}; tare list records")


def find_series(terms: list[str], where: str | None) -> list[Record]:
    """The records that make series over time: one of a case for each run that was asked for. Files of records do
    not say which run was what, and are taken whole."""
    found = find_records(terms, where)
    if not found or any(names_file(term) for term in terms):
        return found
    with Store(where, reading=True) as store:
        beside = runs_beside(store)
    return [record for record in found if record.run not in beside]


def newest_run(where: str | None) -> list[Record]:
    """The records of the run that wrote last."""
    with Store(where, reading=True) as store:
        return selectors.newest_run(store)


def name_baseline(name: str, selector: str, where: str | None) -> tuple[list[Record], bool]:
    """Names the records of a selector; returns them, and whether the name was taken before."""
    with Store(where, existing=True) as store:
        if files := [term for term in split_terms(selector) if names_file(term)]:
            raise BadInput(
                f"a baseline names records in the store, and {files[0]} is a file: tare import it first,"
                " or compare with it directly"
            )
        found = select_records(selector, store).records
        return found, set_baseline(store, name, found)


def all_baselines(where: str | None) -> list[Baseline]:
    with Store(where, reading=True) as store:
        return list_baselines(store)


def baseline_records(name: str, where: str | None) -> list[Record]:
    with Store(where, reading=True) as store:
        return get_baseline(store, name)


def forget_baseline(name: str, where: str | None) -> None:
    with Store(where, existing=True) as store:
        remove_baseline(store, name)


def find_foreign_points(terms: list[str], where: str | None) -> list[ForeignPoint]:
    """Points of other tools by their benchmarks' names. A file of records, or a field of a case, names none."""
    if any(names_file(term) or _names_field(term) for term in terms):
        return []
    with Store(where, reading=True) as store:
        return find_foreign(store, terms)


def _names_field(term: str) -> bool:
    name, equals, value = term.partition("=")
    return bool(equals) and "/" not in value and may_be_field(name)


class ImportedFile(msgspec.Struct):
    """`what` was found in it: records of ours, or points of another tool's series."""

    file: str
    source: str
    what: Literal["records", "points"]
    found: int
    new: int
    left_out: dict[str, str]


def import_files(files: list[Path], where: str | None) -> list[ImportedFile]:
    """All of them, or none if one cannot be read."""
    contents = [(str(path), _read_any(path)) for path in files]
    with Store(where) as store:
        return [_bring_in(store, name, content) for name, content in contents]


def _read_any(path: Path) -> list[Record] | Imported:
    """Records of ours are a list, and every other tool's file is a document."""
    data = read_file(path)
    return decode_records(data, str(path)) if data.lstrip()[:1] == b"[" else decode_foreign(data, str(path))


def _bring_in(store: Store, name: str, content: list[Record] | Imported) -> ImportedFile:
    if isinstance(content, Imported):
        new = add_foreign(store, content.points)
        return ImportedFile(name, content.source, "points", len(content.points), new, content.left_out)
    new, clashing = keep_records(store, content)
    left_out = {record.id: f"run {record.run} has another record of {record.case.key}" for record in clashing}
    return ImportedFile(name, "tare", "records", len(content), new, left_out)
