"""Two machines, two versions, two runs or two records side by side."""

import re
import shlex
from statistics import geometric_mean

from sqlalchemy import or_

from tare.errors import BadInput
from tare.guard.compare import Rules, compare_selections
from tare.guard.metrics import METRICS
from tare.guard.thresholds import Thresholds
from tare.report.changes import changes_view
from tare.report.numbers import several
from tare.report.page import PageChart
from tare.site.page import Filter, Lines, Page, Part, ShownCommand
from tare.site.pages.common import Query, labels_of, ladder_title, portion
from tare.site.questions import Scope, measured_by_both
from tare.site.tables import Column, DataTable
from tare.store import schema
from tare.store.baselines import get_baseline, list_baselines
from tare.store.selection import Selection, find_in_store, newest_of_each_family

# A comparison decodes every record of both sides.
MOST_RECORDS = 300
MOST_BARS = 80
MACHINE, BASELINE = "machine:", "baseline:"
# Terms by which a database finds records; any other one alone would read all of them.
INDEXED = re.compile(r"(workload|run|id|commit|tag\.[\w.-]+)=|newest(~\d+)?$")
EXAMPLES = (
    "baseline:main, newest, newest~1, a run's or a record's id, commit=..., tag.pr=12, workload=..., machine:ID"
)
RATIOS = (
    Column("workload", "workload", "key", "path"),
    Column("rung", "rung"),
    Column("settings", "settings", "key"),
    Column("a", "a", "seconds", "a_path"),
    Column("b", "b", "seconds", "b_path"),
    Column("ratio", "b is times as fast", "x"),
)


def compare_page(scope: Scope, query: Query) -> Page:
    a, b = query.get("a", "").strip(), query.get("b", "").strip()
    known = [("", "choose")]
    if scope.project is None:
        known += [(f"baseline:{each.name}", f"baseline {each.name}") for each in list_baselines(scope.store)]
    choices = (Filter("a", "before", a), Filter("b", "now", b))
    parts: list[Part] = [Lines([f"Each side is one of: {EXAMPLES}."], "faint")]
    more = ""
    if a and b:
        if a.startswith(MACHINE) and b.startswith(MACHINE):
            compared, more = _machines(scope, a, b, query)
        else:
            compared = _records(scope, a, b)
        parts += compared
    elif len(known) > 1:
        parts.append(Lines([f"Baselines: {', '.join(text for _, text in known[1:])}"], "faint"))
    return Page("Compare", "compare/", parts, filters=choices, more=more)


def _machines(scope: Scope, a: str, b: str, query: Query) -> tuple[list[Part], str]:
    """The newest figures of the cases that both have measured, and the address of more of them."""
    labels = labels_of(scope)
    ids = [side.removeprefix(MACHINE) for side in (a, b)]
    for id_ in ids:
        if id_ not in labels:
            raise LookupError(f"there is no machine {id_[:40]}")
    common = [
        row for row in measured_by_both(scope, *ids) if not {row.a_parity, row.b_parity} & {"different", "nan"}
    ]
    if not common:
        return [Lines(["The two have measured no case in common."], "warning")], ""
    common.sort(key=lambda row: row.b_gross / row.a_gross)
    ratios = [row.a_gross / row.b_gross for row in common]
    faster = sum(ratio > 1 for ratio in ratios)
    texts = [
        f"a is {labels[ids[0]]}, b is {labels[ids[1]]}.",
        f"b is {geometric_mean(ratios):.3g} times as fast over {several(len(common), 'case')} (geometric mean; "
        f"{min(ratios):.2g} to {max(ratios):.2g} times), faster on {faster} of them.",
    ]
    part = portion(query)
    shown = common[part.offset :][: part.limit]
    rows = [
        {
            "workload": row.workload,
            "rung": row.rung,
            "settings": ladder_title(row.ladder),
            "a": row.a_gross,
            "b": row.b_gross,
            "ratio": row.a_gross / row.b_gross,
            "path": f"workloads/{row.workload}/",
            "a_path": f"series/{row.a_id}/",
            "b_path": f"series/{row.b_id}/",
        }
        for row in part.of(shown)
    ]
    figure = {
        "title": "", "subtitle": "", "axes": ["workload"], "missing": [], "command": "",
        "measures": [{"name": "speedup", "title": "b is times as fast", "unit": "x"}],
        "points": [
            {"rung": row["rung"], "at": {"workload": f"{row['workload']} {row['rung']}"},
             "values": {"speedup": [row["ratio"], None, None]}}
            for row in reversed(rows[:MOST_BARS])
        ],
    }  # fmt: skip
    parts: list[Part] = [
        Lines(texts),
        PageChart("ratios", "", "gross of the newest records", figure),
        DataTable("ratios", RATIOS, rows),
    ]
    return parts, part.more("compare/", query, shown)


def _records(scope: Scope, a: str, b: str) -> list[Part]:
    """With the statistics of tare compare."""
    if scope.project is not None:
        raise BadInput("a token of one project compares machines alone")
    before, now = _side(scope, a), _side(scope, b)
    report = compare_selections(before, now, Rules(Thresholds(), METRICS), force=True)
    bad = f"{several(len(report.bad), 'case')} of {len(report.cases)} got worse."
    command = shlex.join(["tare", "compare", a, b, *(["--force"] if report.forced else [])])
    return [Lines([bad]), ShownCommand("the same in a terminal", command), changes_view(report)]


def _side(scope: Scope, text: str) -> Selection:
    """Never a file: the address of a page may come from anybody."""
    terms, columns = text.split(), schema.records.c
    if text.startswith(BASELINE):
        selection = Selection(text, get_baseline(scope.store, text.removeprefix(BASELINE)))
    elif any(INDEXED.match(term) for term in terms):
        selection = find_in_store(terms, scope.store)
    elif len(terms) == 1:
        selection = Selection(text, scope.store.find(or_(columns.id == text, columns.run == text)))
    else:
        raise BadInput(f"'{text[:60]}' would read every record; each side is one of: {EXAMPLES}")
    records = newest_of_each_family(selection.records)
    if not records:
        raise LookupError(f"no record is named by '{text[:60]}'")
    if len(records) > MOST_RECORDS:
        raise BadInput(
            f"'{text[:60]}' names {len(records)} cases; a page compares {MOST_RECORDS}: add workload=NAME"
        )
    return selection._replace(label=text, records=records)
