"""Which records a user means: by terms, and by a selector, which names one side of a comparison.

main, baseline:main          a baseline
newest, newest~1             the run that wrote last, the one before
4f2a..., run:4f2a...         a run, or a single record, by its id
FILE.json, FILE.json.gz      exported records; with terms beside it, those among them that match
torch=2.10.0                 records by a field of the case or the environment; several terms with spaces between
gpu=NVIDIA H200              a value with spaces, alone; beside other terms in quotes: gpu='NVIDIA H200' rung=eager
"""

import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Select, func, or_, select

from tare.errors import BadInput, quote
from tare.records.codec import names_file, read_records
from tare.records.newest import newest_of_each_case
from tare.records.record import Record
from tare.store import schema
from tare.store.baselines import get_baseline, list_baselines
from tare.store.database import Store
from tare.store.query import Matches, parse_query

NEWEST = re.compile(r"newest(?:~([0-9]{1,6}))?")


class Selection(NamedTuple):
    """One side of a comparison: the newest record of each case, and the environment's fields that the user named
    and that may therefore differ between the sides."""

    label: str
    records: list[Record]
    environment_fields: frozenset[str]


def find_in_store(terms: Sequence[str], store: Store) -> Matches:
    """The stored records for which all terms hold, oldest first; all records if there are no terms."""
    query = parse_query(terms)
    return query.select(store.find(*query.conditions()))


def find_in_files(terms: Sequence[str]) -> Matches | None:
    """The records in the files that some terms name, for which all other terms hold; None if no term is a file."""
    files = [Path(term) for term in terms if names_file(term)]
    if not files:
        return None
    query = parse_query([term for term in terms if not names_file(term)])
    return query.select(record for file in files for record in read_records(file))


def select_records(text: str, store: Store) -> Selection:
    """The records that a selector names; BadInput if there are none."""
    text = text.strip()
    if not text:
        # As a query, no terms would mean all records, which an empty variable in a script hardly means.
        raise BadInput("an empty selector names no records; tare list records, tare baseline list")
    matches = _find(text, store)
    if not matches.records:
        raise BadInput(f"no record is selected by {quote(text)}; tare list records, tare baseline list")
    return Selection(text, newest_of_each_case(matches.records), matches.environment_fields)


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


def split_terms(text: str) -> list[str]:
    """The terms of a selector, which is one argument: split as a shell does, unless all of it is a file's name."""
    if _is_file_name(text):
        return [text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{quote(text)} cannot be split into terms: {error}") from None


def _auxiliary() -> Select[tuple[str]]:
    runs = schema.runs.c
    return select(runs.id).where(or_(runs.baseline_side, runs.confirmation))


def _find(text: str, store: Store) -> Matches:
    kind, colon, name = text.partition(":")
    newest = NEWEST.fullmatch(text)
    if _is_file_name(text):
        return Matches(read_records(Path(text)))
    if colon and kind == "baseline":
        return Matches(get_baseline(store, name))
    if colon and kind == "run":
        return Matches(store.find(schema.records.c.run == name))
    if newest:
        return Matches(newest_run(store, int(newest[1] or 0)))
    if any(baseline.name == text for baseline in list_baselines(store)):
        return Matches(get_baseline(store, text))
    if text.count("=") == 1 and " " in text.partition("=")[2]:
        # The names of processors contain spaces; alone, such a value needs no second pair of quotes.
        with contextlib.suppress(BadInput):
            matches = find_in_store([text], store)
            if matches.records:
                return matches
    terms = split_terms(text)
    return find_in_files(terms) or find_in_store(terms, store)


def _is_file_name(text: str) -> bool:
    """Whether the whole text is the name of a file of records, which may contain spaces."""
    if not names_file(text) or " " not in text:
        return names_file(text)
    # OSError: a name that is too long.
    with contextlib.suppress(OSError):
        return Path(text).exists()
    return False
