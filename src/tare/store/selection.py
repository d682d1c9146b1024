"""Which records a user means: by terms, in a store and in files alike, and by a selector, which is one argument.

docs/records.md has the grammar of both. All terms must hold; the values within one term are alternatives.
"""

import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Select, func, or_, select

from tare.cases.case import CHOICES, COUNTS, Case, key_matches
from tare.cases.source import OBJECT, workload_name
from tare.errors import BadInput, quote, unknown
from tare.records.codec import names_file, read_records
from tare.records.record import Record
from tare.records.tags import PREFIX
from tare.store import schema
from tare.store.baselines import get_baseline, list_baselines
from tare.store.database import Store
from tare.store.schema import FIELDS, index_columns

# The fields of a user's project that a query can name. They are in the document alone.
PROJECT_FIELDS = ("commit", "branch")
NEWEST = re.compile(r"newest(?:~([0-9]{1,6}))?")


class Selection(NamedTuple):
    """The records that a user means, and the fields of the environment that the user named (`software.torch`): two
    sides of a comparison may differ in these."""

    label: str
    records: list[Record]
    environment_fields: frozenset[str] = frozenset()


def find_in_store(terms: Sequence[str], store: Store) -> Selection:
    """The stored records for which all terms hold, oldest first; all records if there are no terms."""
    terms = [_named_run(term, store) for term in terms]
    words, fields = _parse(terms)
    columns = schema.records.c
    named = [condition for field in fields for condition in _conditions(*field, store)]
    beginnings = [(word, word.partition("*")[0].rstrip("/")) for word in words]
    keys = [
        or_(columns.key.startswith(key, autoescape=True), columns.id == word, columns.run == word)
        for word, key in beginnings
    ]
    return filter_records(store.find(*named, *keys), terms)


def _conditions(name: str, values: list[str], store: Store) -> Iterator[ColumnElement[bool]]:
    """What a database can check of a field before a record is decoded. It may let too many records through."""
    columns, tag = schema.records.c, schema.tags.c
    if name in FIELDS:
        yield columns[name].in_(_typed(name, values))
    elif name in PROJECT_FIELDS:
        yield or_(*(columns[name].startswith(value, autoescape=True) for value in values))
    elif name.startswith(PREFIX):
        known = [PREFIX + row.name for row in store.rows(select(tag.name).distinct())]
        if known and name not in known:
            raise unknown("field", name, known)
        is_named = (tag.name == name.removeprefix(PREFIX), tag.value.in_([*values, ",".join(values)]))
        yield columns.id.in_(select(tag.record).where(*is_named))


def find_in_files(terms: Sequence[str]) -> Selection | None:
    """The records in the files that some terms name, for which all other terms hold; None if no term is a file."""
    files = [Path(term) for term in terms if names_file(term)]
    if not files:
        return None
    records = [record for file in files for record in read_records(file)]
    return filter_records(records, [term for term in terms if not names_file(term)])


def filter_records(records: list[Record], terms: Sequence[str]) -> Selection:
    """The records for which all terms hold; BadInput for a field that none of them has."""
    words, fields = _parse(terms)
    records = [
        record
        for record in records
        if all(word in (record.id, record.run) or _fits(record.case, word) for word in words)
    ]
    environment_fields: set[str] = set()
    # Which sizes and which fields of the environment exist depends on the records that the other fields choose.
    for name, values in sorted(fields, key=lambda field: field[0] not in FIELDS):
        if name.startswith(PREFIX):
            if records and not any(name.removeprefix(PREFIX) in record.tags for record in records):
                raise _unknown_field(name, records)
        elif name not in (*FIELDS, *PROJECT_FIELDS):
            groups = (asdict(record.environment) for record in records)
            named = {f"{group}.{name}" for each in groups for group, facts in each.items() if name in facts}
            if records and not named and not any(name in record.case.sizes for record in records):
                raise _unknown_field(name, records)
            environment_fields |= named
        records = [record for record in records if _has_value(record, name, values)]
    return Selection(" ".join(terms), records, frozenset(environment_fields))


def _parse(terms: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Words, which are keys, their beginnings, patterns with stars or ids; and fields with their values. BadInput
    for a value that its field cannot have."""
    words, fields = [], []
    for term in terms:
        if not term.isprintable():
            # No record contains such a text, and a lone surrogate cannot be sent to a database.
            raise BadInput(f"{quote(term)} is not the text of a key, an id or a field")
        name, equals, value = term.partition("=")
        if not equals or not may_be_field(name):
            words.append(_as_key(term))
            continue
        values = [part for part in value.split(",") if part]
        if not values:
            raise BadInput(f"'{term}' names no value: write {name}=VALUE")
        for part in values:
            if name in CHOICES and part not in CHOICES[name]:
                raise unknown(name, part, CHOICES[name])
        fields.append((name, values))
    return words, fields


def _named_run(term: str, store: Store) -> str:
    """The id of the run that `newest` or `newest~1` stands for; every other term as it is."""
    newest = NEWEST.fullmatch(term)
    records = newest_run(store, int(newest[1] or 0)) if newest else []
    return records[0].run if records else term


def _as_key(word: str) -> str:
    """A user's model as it was named to be measured, in the words of its key: src/nets.py::Net is nets.py::Net."""
    file, separator, rest = word.partition(OBJECT)
    if not separator or not file.endswith(".py") or "*" in file:
        return word
    return workload_name(f"{Path(file).name}{OBJECT}") + rest


def _fits(case: Case, word: str) -> bool:
    """Whether a word names a case; without the digest of a user's model, it names all versions of the model."""
    return key_matches(case.key, word) or (case.source is not None and key_matches(case.family, word))


def may_be_field(name: str) -> bool:
    """Whether the text before an equals sign can be the name of a field. The names of benchmarks (`test_x[n=4]`),
    keys and patterns (`*batch=8*`) have characters that no field has."""
    return re.search(r"[^A-Za-z0-9_.\- ]", name) is None


def select_records(text: str, store: Store) -> Selection:
    """The newest record of each case that a selector names; BadInput if there are none."""
    text = text.strip()
    if not text:
        # As a query, no terms would mean all records, which an empty variable in a script hardly means.
        raise BadInput("an empty selector names no records; tare list records, tare baseline list")
    selection = _select(text, store)
    if not selection.records:
        raise BadInput(f"no record is selected by {quote(text)}; tare list records, tare baseline list")
    return selection._replace(label=text, records=newest_of_each_family(selection.records))


def _select(text: str, store: Store) -> Selection:
    if newest := NEWEST.fullmatch(text):
        return Selection(text, newest_run(store, int(newest[1] or 0)))
    baseline = text.removeprefix("baseline:")
    if baseline != text or any(text == known.name for known in list_baselines(store)):
        return Selection(text, get_baseline(store, baseline))
    # Names of files and of processors contain spaces: all of the text may be one term.
    with contextlib.suppress(BadInput):
        if " " in text and (selection := _find([text], store)).records:
            return selection
    try:
        return _find(shlex.split(text), store)
    except ValueError as error:
        raise BadInput(f"{quote(text)} cannot be split into terms: {error}") from None


def _find(terms: Sequence[str], store: Store) -> Selection:
    return find_in_files(terms) or find_in_store(terms, store)


def newest_run(store: Store, back: int = 0) -> list[Record]:
    """The records of the run that wrote last, or of the one `back` before it; without a check's auxiliary runs."""
    columns = schema.records.c
    runs = select(columns.run).where(columns.run.not_in(_auxiliary())).group_by(columns.run)
    rows = store.rows(runs.order_by(func.max(columns.created).desc()).offset(back).limit(1))
    return store.find(columns.run == rows[0].run) if rows else []


def auxiliary_runs(store: Store) -> set[str]:
    """The ids of the runs that a check made beside the one that was asked for: those of the baseline's version,
    and confirmations, whose cases were chosen because they looked slow."""
    return {row.id for row in store.rows(_auxiliary())}


def _auxiliary() -> Select[tuple[str]]:
    runs = schema.runs.c
    return select(runs.id).where(or_(runs.baseline_side, runs.confirmation))


def newest_of_each_case(records: Iterable[Record]) -> list[Record]:
    """The newest record of each case; older ones may come from another state of the machine."""
    return list({r.case.key: r for r in sorted(records, key=lambda r: r.created)}.values())


def newest_of_each_family(records: Iterable[Record]) -> list[Record]:
    """The newest record of each case, whatever the code of a user's model was."""
    return list({r.case.family: r for r in sorted(records, key=lambda r: r.created)}.values())


def newest_in_each_environment(records: Iterable[Record]) -> list[Record]:
    """The newest record of each case and environment, ordered by the first record of each. A user's model with
    other code is the same case here.

    A round that failed before its worker had pinned the flags has an incomplete environment: it may belong to any
    environment of its machine. While it is the newest it replaces the records of all of them, later it is dropped.
    """
    ordered = sorted(records, key=lambda record: record.created)
    in_environment = {(r.case.family, r.environment.id): r for r in ordered}
    on_machine = {(r.case.family, r.environment.base_id): r for r in ordered}
    kept = []
    for record in in_environment.values():
        last = on_machine[record.case.family, record.environment.base_id]
        if record is last or not (_failed_early(record) or _failed_early(last)):
            kept.append(record)
    return kept


def _failed_early(record: Record) -> bool:
    return record.failure is not None and record.environment.id == record.environment.base_id


def _has_value(record: Record, name: str, values: list[str]) -> bool:
    if name in FIELDS:
        return index_columns(record)[name] in _typed(name, values)
    if name.startswith(PREFIX):
        # A value may contain a comma.
        return record.tags.get(name.removeprefix(PREFIX)) in (*values, ",".join(values))
    if name in PROJECT_FIELDS:
        return record.project is not None and _has_text(name, getattr(record.project, name), values)
    if name in record.case.sizes:
        return record.case.sizes[name] in _whole_numbers(name, values)
    actual = next((group[name] for group in asdict(record.environment).values() if name in group), "")
    return _has_text(name, actual, values)


def _has_text(name: str, actual: str, values: list[str]) -> bool:
    if name.endswith("commit"):
        return any(len(value) >= 6 and actual.startswith(value) for value in values)
    # A version may be named without its local part (2.10.0 for 2.10.0+cpu), and a value may contain a comma.
    return not {actual, actual.partition("+")[0]}.isdisjoint([*values, ",".join(values)])


def _typed(name: str, values: list[str]) -> list[str] | list[int]:
    return _whole_numbers(name, values) if name in COUNTS else values


def _whole_numbers(name: str, values: list[str]) -> list[int]:
    for value in values:
        # At most 18 digits: an integer of a database has 64 bits.
        if not re.fullmatch(r"[0-9]{1,18}", value):
            raise BadInput(f"{name} is a whole number, not '{value[:40]}'")
    return [int(value) for value in values]


def _unknown_field(name: str, records: Sequence[Record]) -> BadInput:
    sizes = {size for record in records for size in record.case.sizes}
    facts = {fact for record in records for group in asdict(record.environment).values() for fact in group}
    tags = {PREFIX + tag for record in records for tag in record.tags}
    own = ", ".join((*FIELDS, *PROJECT_FIELDS, *sorted(tags)))
    listed = f"of a record: {own}; a size of its workload; of its environment: "
    known = {*FIELDS, *PROJECT_FIELDS, *sizes, *facts, *tags}
    return unknown("field", name, known, listed=listed + ", ".join(sorted(facts)))
