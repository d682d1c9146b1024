"""The tables of docs/frames.md show the results in results/frames."""

import gzip
import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console, RenderableType

from tare.records.call_depth import CallCosts, CallDepth
from tare.report.frames import cost_view, depth_view

ROOT = Path(__file__).parents[2]


class FramesResult(msgspec.Struct):
    depths: list[CallDepth]
    cost: CallCosts | None = None


@pytest.mark.parametrize(
    "record", sorted((ROOT / "results" / "frames").glob("*.json.gz")), ids=lambda path: path.name
)
def test_the_document_shows_the_result(record: Path) -> None:
    result = msgspec.json.decode(gzip.decompress(record.read_bytes()), type=FramesResult)
    written = (ROOT / "docs" / "frames.md").read_text()
    assert table(depth_view(result.depths)) in written
    if result.cost:
        assert table(cost_view(result.cost)) in written


def table(view: RenderableType) -> str:
    """The table from its headings on, as the terminal shows it."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(view)
    text = "\n".join(line.rstrip() for line in console.export_text().splitlines()).strip()
    return text[text.index("\nrung") + 1 :]
