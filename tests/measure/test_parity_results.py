"""results/README.md says what the records in results/parity hold, and the tables beside them are theirs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from planted_faults import FAULTS

from benchmarks.parity import markdown, missed

RESULTS = Path(__file__).parents[2] / "results"
RECORDS = sorted(path.stem for path in (RESULTS / "parity").glob("*.json"))


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / "parity" / f"{name}.json").read_text())
    return document


def row(name: str) -> str:
    lines = (RESULTS / "README.md").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"| `parity/{name}.json`"))


@pytest.mark.parametrize("name", RECORDS)
def test_no_fault_that_is_larger_than_rounding_was_missed(name: str) -> None:
    document = load(name)
    assert document["missed"] == missed(document["faults"]) == []


@pytest.mark.parametrize("name", [name for name in RECORDS if load(name)["faults"]])
def test_the_table_of_faults_is_that_of_the_record(name: str) -> None:
    document = load(name)
    assert (RESULTS / "parity" / f"{name}.md").read_text() == markdown(document)
    assert f"{len(document['faults'])} planted faults" in row(name)
    # A fault that was added later has to be measured.
    assert set(document["faults"]) == set(FAULTS)


@pytest.mark.parametrize("name", [name for name in RECORDS if load(name).get("networks")])
def test_the_verdicts_on_random_networks_are_those_of_the_record(name: str) -> None:
    document = load(name)
    verdicts: Counter[str] = sum((Counter(each) for each in document["verdicts"].values()), Counter())
    wrong = document["called different"]
    judged = verdicts.total() - verdicts["cannot run"]
    assert f"{document['networks']} random networks" in row(name)
    assert f"{judged:,} verdicts" in row(name)
    assert verdicts["different"] + verdicts["nan"] == len(wrong)
    assert (f"{len(wrong)} verdicts are wrong" if wrong else "none different") in row(name)
    # Eager as it comes, without a change of the layout or of the library, is never called different.
    assert [text for text in wrong if text.partition(":")[0].endswith(" eager")] == []
