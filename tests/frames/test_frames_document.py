"""The tables of docs/frames.md are what the records say."""

import gzip
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tare.frames.count import Depth
from tare.report.frames import depth_view

ROOT = Path(__file__).parents[2]


class Study(msgspec.Struct):
    depths: list[Depth]


@pytest.mark.parametrize(
    "record", sorted((ROOT / "results" / "frames").glob("*.json.gz")), ids=lambda path: path.name
)
def test_the_document_shows_the_record(record: Path) -> None:
    study = msgspec.json.decode(gzip.decompress(record.read_bytes()), type=Study)
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(depth_view(study.depths))
    shown = [line.rstrip() for line in console.export_text().splitlines()]
    written = (ROOT / "docs" / "frames.md").read_text()
    assert shown[2].startswith("rung")
    assert "\n".join(shown[2:]).strip() in written
