"""Records by what a user writes: what a store knows of their cases, and name=value of their environments."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tare.errors import BadInput, unknown
from tare.records.codec import names_file, read_records
from tare.records.environment import Environment
from tare.records.record import Record
from tare.store.database import Store
from tare.store.journal import keep_records
from tare.store.query import FIELDS, may_be_field, parse_query


class Found(NamedTuple):
    """`meant` are the environment's fields that were named."""

    records: list[Record]
    meant: set[str]


def find_by_terms(terms: Sequence[str], store: Store) -> Found:
    """Records for which every term holds, oldest first; BadInput where one names no field that they have."""
    from tare.workloads import all_workloads

    sizes = {size for workload in all_workloads().values() for size in workload.sizes}
    of_cases, of_environments = [], []
    for term in terms:
        name, equals, value = term.partition("=")
        if not equals or not may_be_field(name) or name in FIELDS or name in sizes:
            of_cases.append(term)
        elif not value:
            raise BadInput(f"'{term}' names no value: write {name}=VALUE")
        else:
            of_environments.append((name, value))
    found = store.find(parse_query(of_cases, sizes))
    meant: set[str] = set()
    for name, value in of_environments:
        fields = {field for record in found for field in _fields(record.environment, name)}
        if found and not fields:
            raise _no_field(name, sizes, found)
        found = [record for record in found if _has(record.environment, name, value)]
        meant |= fields
    return Found(found, meant)


def find_in_files(terms: Sequence[str]) -> Found | None:
    """Records in the files that terms name, for which every other term holds; None where none is a file."""
    read = [record for term in terms if names_file(term) for record in read_records(Path(term))]
    words = [term for term in terms if not names_file(term)]
    if len(words) == len(terms):
        return None
    if not words:
        return Found(read, set())
    # By the same rules as in a store: they are put into one for the purpose. A file may repeat an id.
    with tempfile.TemporaryDirectory() as folder, Store(str(Path(folder) / "chosen.db")) as store:
        keep_records(store, {record.id: record for record in read}.values())
        return find_by_terms(words, store)


def _no_field(name: str, sizes: set[str], found: Sequence[Record]) -> BadInput:
    """The sizes of all workloads would be most of the list, and hide the rest."""
    own = {bare for record in found for bare in _facts(record.environment)}
    listed = f"a case's: {', '.join(FIELDS)}; a size of its workload; its environment's: {', '.join(sorted(own))}"
    return unknown("field", name, {*FIELDS, *sizes, *own}, listed=listed)


def _facts(environment: Environment) -> dict[str, str]:
    return {**environment.circumstances, **environment.flags, **environment.machine, **environment.software}


def _fields(environment: Environment, name: str) -> set[str]:
    groups = {"machine": environment.machine, "software": environment.software, "flags": environment.flags,
              "circumstances": environment.circumstances}  # fmt: skip
    return {f"{group}.{name}" for group, facts in groups.items() if name in facts}


def _has(environment: Environment, name: str, value: str) -> bool:
    """The value, or with commas any of several; one that has a comma itself is meant as a whole, too."""
    found = _facts(environment).get(name, "")
    return any(_is(name, found, wanted) for wanted in (value, *value.split(",")) if wanted)


def _is(name: str, found: str, wanted: str) -> bool:
    """Exactly, or without what a build adds to a version (2.10.0 is 2.10.0+cpu); a commit by its beginning."""
    if name.endswith("commit"):
        return len(wanted) >= 6 and found.startswith(wanted)
    return wanted in (found, found.partition("+")[0])
