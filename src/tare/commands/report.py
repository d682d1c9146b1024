"""What `tare report` does: gathers the records and the studies of a report."""

from collections.abc import Sequence

from tare.commands.records import find_records
from tare.commands.study import show_study
from tare.errors import BadInput
from tare.report.web.report_page import ReportContent, make_report_content
from tare.store.database import Store
from tare.store.selection import newest_in_each_environment, newest_run
from tare.studies.evidence import stored_evidence
from tare.studies.registry import get_study


def gather_report(
    terms: Sequence[str], studies: Sequence[str], store: str | None, title: str = ""
) -> ReportContent:
    """Of the records that match the terms, or of those that runs of the studies have left in the store; with
    neither, of the newest run."""
    verdicts = [show_study(name, [], False, store) for name in studies]
    if terms:
        records = find_records(list(terms), store, latest=True)
    else:
        with Store(store, reading=True) as opened:
            if studies:
                found = [
                    record
                    for name in studies
                    for record in stored_evidence(get_study(name), False, opened).records
                ]
                records = newest_in_each_environment({record.id: record for record in found}.values())
            else:
                records = newest_run(opened)
    if not records and not studies:
        raise BadInput("the store is empty: measure something (tare run), or name a file of records")
    return make_report_content(records, verdicts, title)
