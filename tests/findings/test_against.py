"""tare explain X --against Y: the rules that compare two traces see X before and Y after."""

import gzip
import json
from pathlib import Path

import pytest
from traces import RECORDED

from tare.commands.explain import explain_files
from tare.report.explain import ExplainReport

EAGER = RECORDED / "resnet50-infer-b1-eager.json.gz"
PRODUCTS = RECORDED / "inefficient-fp32-matmul-tf32-off.json.gz"


def faster(folder: Path) -> Path:
    """Recorded float32 matrix products as if their kernels had been others once, a third as long."""
    document = json.loads(gzip.decompress(PRODUCTS.read_bytes()))
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel" and "gemm" in event["name"]:
            event |= {"name": "fast_path", "dur": round(event["dur"] / 3, 3)}
    path = folder / "faster.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def rules(explained: ExplainReport) -> list[set[str]]:
    return [{finding.rule for finding in diagnosis.findings} for diagnosis in explained.diagnoses]


def test_kernels_that_changed_are_found_in_the_later_trace(tmp_path: Path) -> None:
    earlier, later = str(faster(tmp_path)), str(PRODUCTS)
    before, after = rules(explain_files([earlier], against=later))
    assert "kernel-changed" in after
    assert "kernel-changed" not in before
    assert not any("kernel-changed" in found for found in rules(explain_files([later], against=earlier)))
    assert not any("kernel-changed" in found for found in rules(explain_files([earlier, later])))


def test_what_was_removed_adds_up() -> None:
    explained = explain_files([str(EAGER)], against=str(RECORDED / "resnet50-infer-b1-cudagraph.json.gz"))
    one, other = (explanation.waterfall for explanation in explained.explanations)
    (found,) = explained.against
    assert (found.first, found.other) == ("resnet50-infer-b1-eager", "resnet50-infer-b1-cudagraph")
    assert sum(part.removed for part in found.parts) == one.gross - other.gross
    removed = {part.name: part.removed for part in found.parts}
    assert removed["dispatch"] / (one.gross - other.gross) == pytest.approx(0.55, abs=0.01)


def test_no_time_is_compared_where_gross_is_unknown(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(EAGER.read_bytes()))
    del document["tare_recorded"]
    path = tmp_path / "unknown.json"
    path.write_text(json.dumps(document))
    assert explain_files([str(EAGER)], against=str(path)).against == []
