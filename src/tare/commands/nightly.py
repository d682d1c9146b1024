"""`tare nightly`: what a cron job or a CI calls: measure a plan, check it, write the reports, push the records."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.plan import Plan
from tare.commands.check import CheckSession
from tare.commands.push import PushResult, SiteClient, push
from tare.commands.run import Session
from tare.errors import BadInput, TareError
from tare.guard.changes import Report
from tare.guard.compare import Rules
from tare.records.record import Record
from tare.report.files import write_whole
from tare.report.formats import get_comparison_format
from tare.report.web.report_page import make_report_content, report_html
from tare.store import schema
from tare.store.baselines import list_baselines, set_baseline
from tare.store.database import Store

# A night's comparison in each of these formats, by the ending of its file.
REPORTS = {"markdown": "check.md", "json": "check.json", "junit": "check.xml"}
PAGE = "report.html"


class NightResult(msgspec.Struct, kw_only=True):
    """`is_first`: there was no baseline, and this night is it now."""

    folder: str
    files: list[str]
    is_first: bool
    records: int
    failed: int
    regressions: int
    exit_code: int
    pushed: PushResult | None = None
    # Why the records could not be sent; they stay in the store, and the next night sends them.
    push_failed: str = ""


def run_night(
    plan: Plan,
    options: dict[str, Any],
    baseline: str,
    rules: Rules,
    where: str | None,
    folder: Path,
    resume: bool,
    force: bool,
    max_minutes: float | None,
    site: SiteClient | None,
    tags: dict[str, str],
    show_progress: bool,
) -> NightResult:
    """The reports of one night are in a folder with its date."""
    tonight = folder / datetime.now().astimezone().strftime("%Y-%m-%d-%H%M")
    try:
        tonight.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the folder {tonight}: {error.strerror}") from None
    with Store(where) as store:
        is_first = baseline not in [known.name for known in list_baselines(store)]
    if is_first:
        report, code = None, _first_night(plan, options, baseline, where, resume, tags, show_progress)
    else:
        session = CheckSession(plan, options, rules, where, show_progress, tags)
        report = session.run(baseline, None, resume, force, max_minutes=max_minutes)
        code = report.exit_code
    with Store(where) as store:
        records = _measured(store, report)
        files = _write_reports(tonight, report, records)
        result = NightResult(
            folder=str(tonight),
            files=files,
            is_first=is_first,
            records=len(records),
            failed=sum(record.failed for record in records),
            regressions=len(report.bad) if report else 0,
            exit_code=code,
        )
        if site is not None:
            try:
                result.pushed = push(store, site)
            except TareError as error:
                result.push_failed = str(error)
                result.exit_code = result.exit_code or 1
    return result


def _first_night(
    plan: Plan,
    options: dict[str, Any],
    baseline: str,
    where: str | None,
    resume: bool,
    tags: dict[str, str],
    show_progress: bool,
) -> int:
    result = Session(plan, options, False, where, show_progress, tags=tags).run(resume)
    if result.interrupted:
        return result.exit_code
    good = [record for record in result.records if record.ok]
    with Store(where) as store:
        set_baseline(store, baseline, good)
    return result.exit_code


def _measured(store: Store, report: Report | None) -> list[Record]:
    """The records of this night: those of the check's first stage, or of the newest run."""
    runs = schema.runs.c
    if report is None:
        from tare.store.selection import newest_run

        return newest_run(store)
    ids = [run for text in report.runs.values() for run in text.split(", ")]
    auxiliary = {
        row.id
        for row in store.rows(schema.runs.select().where(runs.id.in_(ids)))
        if row.baseline_side or row.confirmation
    }
    return store.find(schema.records.c.run.in_([id_ for id_ in ids if id_ not in auxiliary]))


def _write_reports(folder: Path, report: Report | None, records: list[Record]) -> list[str]:
    files = []
    if records:
        write_whole(folder / PAGE, report_html(make_report_content(records, [])))
        files.append(PAGE)
    if report is not None:
        for name, file in REPORTS.items():
            write_whole(folder / file, get_comparison_format(name)(report))
            files.append(file)
    return files
