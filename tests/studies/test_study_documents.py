"""docs/studies.md and docs/claims.md say what is there."""

import re
import runpy
import tomllib
from pathlib import Path

from tare.studies.registry import study_names
from tare.studies.rules import RULES
from tare.studies.study import make_study

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "studies.md").read_text()


def rows(heading: str) -> list[str]:
    """The names in the first column of the table with this head."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)`", table, re.MULTILINE)


def test_the_page_names_every_study_and_every_rule() -> None:
    assert sorted(rows("study")) == sorted(study_names())
    assert sorted(rows("rule")) == sorted(RULES)


def test_the_example_is_a_study() -> None:
    example = PAGE.partition("```toml\n")[2].partition("```")[0]
    study = make_study(tomllib.loads(example), "the example")
    assert [claim.id for claim in study.claims] == ["faster", "later"]
    assert study.plan("cuda", quick=True).grids[0].smoke


def test_the_table_of_claims_is_that_of_the_published_records() -> None:
    """scripts/tables/claims.py writes it."""
    script = runpy.run_path(str(ROOT / "scripts" / "tables" / "claims.py"))
    assert script["page"]() == (ROOT / "docs" / "claims.md").read_text()
