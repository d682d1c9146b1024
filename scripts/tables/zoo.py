"""Writes the tables of docs/zoo-h200.md and docs/zoo-compile.md, and the latter's picture, from the records:
`python scripts/tables/zoo.py`. A test compares."""

from functools import cache
from pathlib import Path

import msgspec

from tare.records.codec import read_records
from tare.records.record import Parity, Record
from tare.report.formats.markdown import markdown, suites_markdown
from tare.report.formats.svg import suites_svg
from tare.report.overview import overview
from tare.report.suite import make_suites
from tare.workloads import get_workload
from tare.workloads.groups import ZOO, all_groups

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURE = DOCS / "zoo-compile.svg"
MARK = "<!-- what follows is written by scripts/tables/zoo.py -->\n"
# The H200 training records have no parity. At smoke size on a CPU these compile to other gradients
# (results/zoo/smoke-compile-train-x86-64.json.gz), so they are in neither the table nor the mean.
TRAINED_WRONG = ("moco", "timm_convnext")
DIFFERENT = "compile does not compute the same (different)"
REASON = "compile computes other gradients, see above"


@cache
def measured(name: str) -> list[Record]:
    return read_records(ROOT / "results" / "zoo" / f"h200-{name}.json.gz")


def every_case() -> str:
    # The usual columns: a page is as wide as a screen.
    return "\n".join(markdown(overview(measured(name), table=True)) for name in ("infer", "train"))


def against_eager() -> str:
    return "\n".join(
        _against_eager(mode, records) for mode, records in (("infer", measured("compile")), ("train", trained()))
    )


def trained() -> list[Record]:
    """The training records, with those that the compiler trains wrongly marked as different."""
    different = Parity(status="different")
    return [
        msgspec.structs.replace(record, parity=different)
        if record.case.rung == "compile" and record.case.workload in TRAINED_WRONG
        else record
        for record in measured("compile-train")
    ]


def _against_eager(mode: str, records: list[Record]) -> str:
    left = sorted(still_to_come(mode, records), key=str.lower)
    text = suites_markdown(records).replace(DIFFERENT, REASON)
    return text + (f"\nNot measured yet: {', '.join(left)}.\n" if left else "")


def still_to_come(mode: str, records: list[Record]) -> set[str]:
    known = {one.case.workload for one in records}
    return {name for name in all_groups()[ZOO] if not get_workload(name).refusal({mode})} - known


PAGES = {DOCS / "zoo-h200.md": every_case, DOCS / "zoo-compile.md": against_eager}


def page(path: Path) -> str:
    """What stands above the mark stays."""
    return path.read_text().partition(MARK)[0] + MARK + "\n" + PAGES[path]()


def picture() -> str:
    return suites_svg(make_suites([*measured("compile"), *trained()])).replace(DIFFERENT, REASON)


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(page(each))
    PICTURE.write_text(picture())
