"""Every published record is in results/README.md with what it is, and nothing is there that is not."""

import re
from fnmatch import fnmatch
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def test_every_record_has_a_row_and_every_row_a_record() -> None:
    rows = [line for line in (RESULTS / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    found = [str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*.json*")]
    assert [path for path in found if not any(fnmatch(path, name) for name in named)] == []
    assert [name for name in named if not any(fnmatch(path, name) for path in found)] == []
