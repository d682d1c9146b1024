"""What scripts write into the documents is what they would write today."""

import runpy
from pathlib import Path

from tare.workloads import all_workloads

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_the_page_of_workloads_shows_what_there_is() -> None:
    script = runpy.run_path(str(SCRIPTS / "workload_table.py"))
    ours = {name: w for name, w in all_workloads().items() if type(w.definition).__module__.startswith("tare.")}
    assert script["PAGE"].read_text() == script["page"](ours), "run: python scripts/workload_table.py"


def test_the_page_of_the_zoo_shows_the_published_records() -> None:
    script = runpy.run_path(str(SCRIPTS / "zoo_table.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python scripts/zoo_table.py"
