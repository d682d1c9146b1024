"""The table in docs/workloads.md is the registry's."""

import runpy
from pathlib import Path

from tare.workloads import all_workloads

SCRIPT = Path(__file__).parents[2] / "scripts" / "workload_table.py"


def test_the_page_shows_what_there_is() -> None:
    script = runpy.run_path(str(SCRIPT))
    ours = {name: w for name, w in all_workloads().items() if type(w.definition).__module__.startswith("tare.")}
    assert script["PAGE"].read_text() == script["page"](ours), "run: python scripts/workload_table.py"
