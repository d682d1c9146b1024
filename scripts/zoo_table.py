"""Writes the tables of docs/zoo-h200.md from the records: `python scripts/zoo_table.py`. A test compares."""

from pathlib import Path

from tare.export.as_table import export
from tare.records.codec import read_records

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "zoo-h200.md"
RECORDS = ("h200-infer.json.gz", "h200-train.json.gz")
MARK = "<!-- what follows is written by scripts/zoo_table.py -->\n"


def page() -> str:
    tables = [export(read_records(ROOT / "results" / "zoo" / name)) for name in RECORDS]
    return PAGE.read_text().partition(MARK)[0] + MARK + "\n" + "\n".join(tables)


if __name__ == "__main__":
    PAGE.write_text(page())
