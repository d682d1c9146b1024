"""The figures that docs/team.md prints are the published ones, and keep what the site promises."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.site import pages_table

ROOT = Path(__file__).parents[2]
PROMISED_MS = 200


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "results" / "site" / "pages.json").read_text())
    return document


def test_the_table_is_the_results(published: dict[str, Any]) -> None:
    assert pages_table(published) in (ROOT / "docs" / "team.md").read_text()


def test_every_page_of_a_million_records_is_quick(published: dict[str, Any]) -> None:
    for kind in ("sqlite", "postgresql"):
        assert published[kind]["records"] == 1_000_000
        assert max(page["median_ms"] for page in published[kind]["pages"].values()) < PROMISED_MS
