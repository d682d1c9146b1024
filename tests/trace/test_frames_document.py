"""The tables of docs/frames.md are what the records say."""

import gzip
import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console, RenderableType

from tare.execute.call_cost import Cost
from tare.execute.call_stacks import Depth
from tare.report.frames import cost_view, depth_view

ROOT = Path(__file__).parents[2]


class Study(msgspec.Struct):
    depths: list[Depth]
    cost: Cost | None = None


@pytest.mark.parametrize(
    "record", sorted((ROOT / "results" / "frames").glob("*.json.gz")), ids=lambda path: path.name
)
def test_the_document_shows_the_record(record: Path) -> None:
    study = msgspec.json.decode(gzip.decompress(record.read_bytes()), type=Study)
    written = (ROOT / "docs" / "frames.md").read_text()
    assert table(depth_view(study.depths)) in written
    if study.cost:
        assert table(cost_view(study.cost)) in written


def table(view: RenderableType) -> str:
    """From the heads of its columns on, as the terminal shows it."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(view)
    text = "\n".join(line.rstrip() for line in console.export_text().splitlines()).strip()
    return text[text.index("\nrung") + 1 :]
