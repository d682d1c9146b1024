"""How a user names one side of a comparison. docs/records.md has the grammar:

main, baseline:main          a baseline
newest, newest~1             the run that wrote last, the one before
4f2a..., run:4f2a...         a run, or a single record, by its id
FILE.json, FILE.json.gz      records that were exported; with terms beside it, those among them
torch=2.10.0                 records by a field of the case or of the environment; several, with spaces between
gpu=NVIDIA H200              a value with spaces, alone; beside others in quotes: gpu='NVIDIA H200' rung=eager
"""

import contextlib
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select

from tare.errors import BadInput, quote
from tare.records.codec import names_file, read_records
from tare.records.newest import newest_of_each_case
from tare.records.record import Record
from tare.store import schema
from tare.store.baselines import get_baseline, list_baselines
from tare.store.database import Store
from tare.store.filters import find_by_terms, find_in_files
from tare.store.query import Query

# Runs that a check made beside the one that was asked for: they are no "newest run".
BASELINE_SIDE = " (baseline side)"
CONFIRMATION = " (confirmation)"
NEWEST = re.compile(r"newest(?:~([0-9]{1,6}))?")


class Selection(NamedTuple):
    """The newest record of each case on one side; `meant` are the environment's fields that the user named."""

    label: str
    records: list[Record]
    meant: frozenset[str]


def select_records(text: str, store: Store) -> Selection:
    """The records that a selector names; BadInput where it names none."""
    if not text.strip():
        # No terms would mean all records: what an empty variable of a script asks for is seldom that.
        raise BadInput("an empty selector names no records; tare list records, tare baseline list")
    records, meant = _find(text.strip(), store)
    if not records:
        raise BadInput(f"no record is selected by {quote(text)}; tare list records, tare baseline list")
    return Selection(text.strip(), newest_of_each_case(records), frozenset(meant))


def newest_run(store: Store, back: int = 0) -> list[Record]:
    """The records of the run that wrote last, or of one `back` before it; those beside others do not count."""
    kept = schema.records.c
    beside = select(schema.runs.c.id).where(_is_beside())
    of_runs = select(kept.run).where(kept.run.not_in(beside)).group_by(kept.run)
    found = store.rows(of_runs.order_by(func.max(kept.created).desc()).offset(back).limit(1))
    return store.find(Query(fields=(("run", (found[0].run,)),))) if found else []


def runs_beside(store: Store) -> set[str]:
    """The runs that checks made beside those that were asked for: the baseline's side is another version, and a
    confirmation a second look at some cases of the same night, chosen because they looked slow."""
    return {row.id for row in store.rows(select(schema.runs.c.id).where(_is_beside()))}


def _is_beside() -> ColumnElement[bool]:
    name = schema.runs.c.name
    return or_(name.like(f"%{BASELINE_SIDE}"), name.like(f"%{CONFIRMATION}"))


def _find(text: str, store: Store) -> tuple[list[Record], set[str]]:
    kind, colon, rest = text.partition(":")
    if _is_one_file(text):
        return read_records(Path(text)), set()
    if colon and kind == "baseline":
        return get_baseline(store, rest), set()
    if colon and kind == "run":
        return store.find(Query(fields=(("run", (rest,)),))), set()
    newest = NEWEST.fullmatch(text)
    if newest:
        return newest_run(store, int(newest[1] or 0)), set()
    if any(one.name == text for one in list_baselines(store)):
        return get_baseline(store, text), set()
    return _by_terms(text, store)


def _by_terms(text: str, store: Store) -> tuple[list[Record], set[str]]:
    if text.count("=") == 1 and " " in text.partition("=")[2]:
        # The names of processors have spaces: who writes one alone should not have to quote it twice.
        with contextlib.suppress(BadInput):
            whole = find_by_terms([text], store)
            if whole.records:
                return whole
    terms = split_terms(text)
    return find_in_files(terms) or find_by_terms(terms, store)


def split_terms(text: str) -> list[str]:
    """The terms of a side, which is one argument: as a shell splits them, or one that is a file's name."""
    if _is_one_file(text):
        return [text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{quote(text)} cannot be split into terms: {error}") from None


def _is_one_file(text: str) -> bool:
    """Whether all of it is the name of a file, which may have spaces."""
    if not names_file(text) or " " not in text:
        return names_file(text)
    # A name that is too long, say.
    with contextlib.suppress(OSError):
        return Path(text).exists()
    return False
