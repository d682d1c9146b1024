"""What got slower: the front page, the list, and one regression with what people say of it."""

import shlex
from collections.abc import Sequence
from typing import Any

from tare.cases.case import Case
from tare.errors import BadInput
from tare.guard.metrics import METRICS, get_metric
from tare.report.numbers import change_text, several
from tare.site.page import Filter, Form, Lines, Page, PageLink, Part, ShownCommand
from tare.site.pages.common import Query, labels_of, number, portion
from tare.site.questions import COMMIT, Scope, one_regression, regressions, totals
from tare.site.tables import Column, DataTable
from tare.store.regressions import STATES, notes_of

WEEK = 7
TITLES = {metric.name: metric.title for metric in METRICS}
SOURCES = {"check": "measured again and confirmed", "history": "a change point"}
COLUMNS = (
    Column("found", "found", "moment", "path"),
    Column("workload", "workload", "text", "workload_path"),
    Column("rung", "rung", "text", "series_path"),
    Column("metric", "metric"),
    Column("change", "change"),
    Column("confirmed", "how sure"),
    Column("range", "between"),
    Column("machine", "machine"),
    Column("state", "state", "word"),
    Column("owner", "owner"),
    Column("note", "newest note"),
)


def front_page(scope: Scope) -> Page:
    """The answer to what most people come for, and how much there is."""
    known = totals(scope)
    lines = [
        f"{known['records']:,} records of {several(known['workloads'], 'workload')} on "
        f"{several(known['machines'], 'machine')}"
        + (f"; the newest is of {known['last'][:16].replace('T', ' ')}" if known["last"] else "")
    ]
    if known["unjudged"]:
        lines.append(f"{several(known['unjudged'], 'series', 'series')} with new points are still to be searched")
    table = _table(scope, regressions(scope, state="open", days=WEEK, limit=50), "this-week")
    table = table._replace(heading="What got slower this week", empty="nothing got slower in the last seven days")
    return Page("tare", "", [Lines(lines, "faint"), table, [PageLink("all regressions", "regressions/")]])


def list_page(scope: Scope, query: Query) -> Page:
    days = number(query, "days", WEEK, 3650)
    state, workload, owner = (query.get(name, "") for name in ("state", "workload", "owner"))
    part = portion(query)
    rows = regressions(
        scope, state=state, days=days, workload=workload, owner=owner, limit=part.limit, offset=part.offset
    )
    periods = [(str(count), f"the last {count} days") for count in (1, WEEK, 30, 365)]
    choices = (
        Filter("days", "found in", str(days), periods),
        Filter("state", "state", state, [("", "any"), *((name, name) for name in STATES)]),
        Filter("workload", "workload", workload),
        Filter("owner", "owner", owner),
    )
    table = _table(scope, part.of(rows), "regressions")
    more = part.more("regressions/", query, rows)
    return Page("What got slower", "regressions/", [table], filters=choices, more=more)


def regression_rows(scope: Scope, rows: Sequence[Any]) -> list[dict[str, Any]]:
    labels = labels_of(scope)
    notes = notes_of(scope.store, [row.id for row in rows])
    return [
        {
            **{
                name: getattr(row, name)
                for name in ("id", "series", "metric", "source", "found", "state", "owner")
            },
            **{
                name: getattr(row, name)
                for name in ("before", "after", "ratio", "low", "high", "workload", "rung")
            },
            **{name: getattr(row, name) for name in ("before_record", "after_record", "mode", "device", "family")},
            **{name: getattr(row, name) for name in ("before_label", "after_label", "before_date", "after_date")},
            "change": change_text(row.ratio, row.low, row.high),
            "confirmed": SOURCES.get(row.source, row.source),
            "range": f"{row.before_label} and {row.after_label} ({row.before_date[:10]} to {row.after_date[:10]})",
            "machine": labels.get(row.machine, row.machine),
            "note": notes[row.id][-1].text if row.id in notes else None,
            "path": f"regressions/{row.id}/",
            "series_path": f"series/{row.series}/?metric={row.metric}",
            "workload_path": f"workloads/{row.workload}/",
        }
        for row in rows
    ]


def _table(scope: Scope, rows: Sequence[Any], name: str) -> DataTable:
    return DataTable(name, COLUMNS, regression_rows(scope, rows), empty="no regression fits")


def regression_page(scope: Scope, id_: str) -> Page:
    row = one_regression(scope, id_)
    if row is None:
        raise LookupError(f"there is no regression {id_[:40]}")
    (shown,) = regression_rows(scope, [row])
    metric = get_metric(row.metric)
    sure = {
        "check": "A check measured both sides again before it said so.",
        "history": "A change point of the series. Of a hundred series without a change about one has such a "
        "point: tare check decides.",
    }
    texts = [
        f"{TITLES.get(row.metric, row.metric)}: {shown['change']} with its 95 % interval, {shown['range']}.",
        sure.get(row.source, ""),
        f"State: {row.state}{f', owner: {row.owner}' if row.owner else ''}.",
    ]
    parts: list[Part] = [
        Lines([text for text in texts if text]),
        [
            PageLink("over time", shown["series_path"]),
            PageLink("the last good record", f"records/{row.before_record}/"),
            PageLink("the first bad record", f"records/{row.after_record}/"),
            PageLink("the two side by side", f"compare/?a={row.before_record}&b={row.after_record}"),
            *_commit_links(scope, row),
        ],
        *_commands(row),
        Lines(
            [f"{note.created[:16].replace('T', ' ')} {note.author}: {note.text}" for note in _notes(scope, id_)],
            heading="Notes",
        ),
        Form(
            f"regressions/{id_}/",
            "save",
            (
                Filter("state", "state", row.state, [(name, name) for name in STATES]),
                Filter("owner", "owner", row.owner),
                Filter("text", "a note", ""),
            ),
        ),
        DataTable("regression", [column for column in COLUMNS if column.name != "note"], [shown], "In one row"),
    ]
    title = f"{row.workload} on {row.rung}: {metric.title} {shown['change']}"
    return Page(title, f"regressions/{id_}/", parts, crumbs=[PageLink("what got slower", "regressions/")])


def _notes(scope: Scope, id_: str) -> list[Any]:
    return notes_of(scope.store, [id_]).get(id_, [])


def _commit_links(scope: Scope, row: Any) -> list[PageLink]:
    addresses = {commit: scope.commit_address(commit) for commit in _commits(row)}
    return [PageLink(f"commit {commit}", address) for commit, address in addresses.items() if address]


def _commits(row: Any) -> list[str]:
    """The last good commit and the first bad one, if that is what the records know of their versions."""
    commits = [label.partition(" · ")[0] for label in (row.before_label, row.after_label)]
    return commits if all(len(commit) == 10 and COMMIT.fullmatch(commit) for commit in commits) else []


def _commands(row: Any) -> list[ShownCommand]:
    """How to measure both sides again, and how to find the culprit between them."""
    try:
        case = Case.parse(row.family)
    except BadInput:
        return []
    key = shlex.quote(row.family)
    commits = _commits(row)
    versions = [label.rpartition("torch ")[2] for label in (row.before_label, row.after_label)]
    commands = []
    metric = "" if row.metric == "gross" else f" --metric {row.metric}"
    if commits and commits[0] != commits[1]:
        good, bad = commits
        subject = shlex.quote(case.workload) if case.source is None and "::" in case.workload else f"--case {key}"
        commands.append(
            ShownCommand("find the commit", f"tare bisect {subject} --repo . --good {good} --bad {bad}{metric}")
        )
    elif versions[0] != versions[1] and all(versions):
        good, bad = (version.partition("+")[0] for version in versions)
        install = shlex.quote("pip install torch=={}")
        commands.append(
            ShownCommand(
                "find the version",
                f"tare bisect --case {key} --install {install} --good {good} --bad {bad}{metric}",
            )
        )
    commands.append(ShownCommand("compare the records", f"tare compare {row.before_record} {row.after_record}"))
    return commands
