"""The suites of the records as a picture: each rung against eager over many workloads."""

from collections.abc import Iterable

from tare.errors import BadInput
from tare.records.record import Record
from tare.report.suite import BASELINE, make_suites
from tare.report.suite_chart import suites_svg


def export(records: Iterable[Record]) -> str:
    suites = make_suites(records)
    if not suites:
        raise BadInput(f"nothing to draw: --format svg shows a rung against {BASELINE} over several workloads")
    return suites_svg(suites)
