"""docs/accuracy.md says what the published trainings say."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_published_trainings() -> None:
    """scripts/tables/accuracy.py writes them."""
    script = runpy.run_path(str(ROOT / "scripts" / "tables" / "accuracy.py"))
    assert script["trainings"]()
    assert script["page"]() == (ROOT / "docs" / "accuracy.md").read_text()
