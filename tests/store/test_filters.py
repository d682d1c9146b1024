"""Records by the fields of their cases and of their environments."""

from pathlib import Path

import pytest
from builders import ENVIRONMENT, make_case, make_record
from msgspec.structs import replace

from tare.errors import BadInput
from tare.store.database import Store
from tare.store.filters import find_by_terms
from tare.store.journal import StoreJournal


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = Store(str(tmp_path / "x.db"))
    for torch, batch in (("2.9.1+cpu", 1), ("2.10.0+cpu", 1), ("2.10.0+cpu", 8)):
        software = {**ENVIRONMENT.software, "torch": torch}
        record = make_record(make_case(batch=batch), environment=replace(ENVIRONMENT, software=software))
        name = f"{torch}-{batch}"
        StoreJournal(opened, name).add_record(replace(record, id=name, run=name))
    return opened


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (["torch=2.9.1"], ["2.9.1+cpu-1"]),
        (["torch=2.10.0", "batch=8"], ["2.10.0+cpu-8"]),
        (["mlp/eager", "cores=2", "torch=2.10.0+cpu", "batch=1"], ["2.10.0+cpu-1"]),
        (["torch=2.8.0"], []),
        (["rung=vendor", "colour=red"], []),
    ],
)
def test_fields_of_cases_and_environments_are_joined(store: Store, terms: list[str], expected: list[str]) -> None:
    assert [record.id for record in find_by_terms(terms, store).records] == expected


def test_the_fields_of_the_environment_that_were_named_are_told(store: Store) -> None:
    assert find_by_terms(["torch=2.9.1", "batch=1"], store).meant == {"software.torch"}


def test_an_unknown_field_is_refused_with_the_cases_fields_first(store: Store) -> None:
    with pytest.raises(BadInput, match=r"a case's: workload, rung, .*; its environment's: .*torch") as caught:
        find_by_terms(["trch=2.9.1"], store)
    assert "did you mean 'torch'?" in str(caught.value)
    # The sizes of the whole zoo are not in it.
    assert len(str(caught.value)) < 500
