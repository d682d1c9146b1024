"""docs/bisect.md says what results/guard/bisection.json holds, and that holds what is promised."""

import json
from pathlib import Path

from benchmarks.bisection import broken_promises, drift_table, kind_table, noise_table
from benchmarks.noise import KINDS

ROOT = Path(__file__).parents[2]


def test_the_tables_of_bisect_are_the_results_and_they_keep_the_promises() -> None:
    results = json.loads((ROOT / "results" / "guard" / "bisection.json").read_text())
    text = (ROOT / "docs" / "bisect.md").read_text()
    for shown in (noise_table(results["rows"]), drift_table(results["rows"]), kind_table(results["kinds"])):
        assert shown in text
    assert {row["noise"] for row in results["kinds"]} == set(KINDS)
    assert results["broken"] == broken_promises(results["kinds"]) == []
