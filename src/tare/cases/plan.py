"""A plan: grids of cases plus how to measure them, from a TOML file or the command line."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Catalogue, Expansion, Grid, check_names, expand, make_filter, make_grid, matches
from tare.cases.toml import read_toml
from tare.errors import BadInput, unknown

TABLES = ("name", "options", "grid", "include", "exclude")
LONGEST_NAME = 255


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`include` adds cases that no exclude removes; `exclude` removes what it matches from the grids."""

    name: str
    # Where it stands, for what is found wrong in it later: the file, or the command line.
    where: str
    grids: tuple[Grid, ...]
    includes: tuple[Grid, ...] = ()
    excludes: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = {}


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file; BadInput names the file and what is wrong in it."""
    # A file's name is bytes, and not always of a text that a store can keep.
    name = os.fsencode(path.stem).decode(errors="replace")
    return make_plan(read_toml(path, "plan"), str(path), default_name=name)


def make_plan(document: Mapping[str, Any], where: str, default_name: str = "plan") -> Plan:
    for name in document:
        if name not in TABLES:
            raise unknown("key", name, TABLES, where)
    name = document.get("name", default_name)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise BadInput(f"{where}: 'name' is not a text of 1 to {LONGEST_NAME} characters")
    options = document.get("options", {})
    if not isinstance(options, dict):
        raise BadInput(f"{where}: 'options' is not a table")
    plan = Plan(
        name=name,
        where=where,
        grids=tuple(make_grid(t, place) for t, place in _tables(document, "grid", where)),
        includes=tuple(make_grid(t, place) for t, place in _tables(document, "include", where)),
        excludes=tuple(make_filter(t, place) for t, place in _tables(document, "exclude", where)),
        options=options,
    )
    if not plan.grids and not plan.includes:
        raise BadInput(f"{where}: a plan has at least one [[grid]] or [[include]]")
    return plan


def expand_plan(plan: Plan, catalogue: Catalogue) -> Expansion:
    """All cases of a plan, each once, in the order of the plan."""
    excludes = [_checked(rule, catalogue) for rule in plan.excludes]
    cases: dict[Case, None] = {}
    searched: dict[Case, None] = {}
    skipped = {}
    for grid in plan.grids:
        found = expand(grid, catalogue)
        for kept, made in ((cases, found.cases), (searched, found.searched)):
            kept.update(dict.fromkeys(case for case in made if not _excluded(case, excludes)))
        skipped.update({s.key: s for s in found.skipped if not _excluded(Case.parse(s.key), excludes)})
    for grid in plan.includes:
        found = expand(grid, catalogue)
        cases.update(dict.fromkeys(found.cases))
        searched.update(dict.fromkeys(found.searched))
        skipped.update({skip.key: skip for skip in found.skipped})
    return Expansion(list(cases), list(skipped.values()), list(searched))


def fingerprint(cases: list[Case], options: object) -> str:
    """What identifies a plan on disk, so that an interrupted run of it can be found again."""
    text = msgspec.json.encode([sorted(case.key for case in cases), options], order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _checked(rule: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """An exclude with the devices that its words for them mean. A misspelt one would match nothing and say so to
    nobody."""
    check_names(catalogue, rule.get("workload", ()), rule.get("rung", ()), rule.get("size", ()))
    named = [device for name in rule.get("device", ()) for device in catalogue.devices(name)]
    return {**rule, "device": tuple(named)} if named else dict(rule)


def _excluded(case: Case, excludes: Iterable[Mapping[str, Any]]) -> bool:
    return any(matches(case, rule) for rule in excludes)


def _tables(document: Mapping[str, Any], name: str, where: str) -> list[tuple[Mapping[str, Any], str]]:
    tables = document.get(name, [])
    if isinstance(tables, dict):
        tables = [tables]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadInput(f"{where}: '{name}' is not a [[{name}]] table")
    return [(table, f"{where}, {name} {i}") for i, table in enumerate(tables, 1)]
