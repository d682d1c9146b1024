"""A store that cannot be written can be read; a verb that writes refuses it in one line."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import make_record
from users import acting_as_nobody

from tare.errors import BadInput
from tare.store.baselines import get_baseline, set_baseline
from tare.store.database import Store
from tare.store.journal import begin
from tare.store.selection import newest_run, select_records


@pytest.fixture
def path() -> Iterator[Path]:
    """A store with a record and a baseline, in a folder that any user may enter."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "a store?.db"
    with Store(str(path)) as store:
        journal = begin(store, "plan", "mark", [])
        journal.add_record(make_record(run=journal.run))
        set_baseline(store, "main", store.find())
    yield path
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def locked(path: Path, file: int = 0o444, folder: int = 0o555) -> Iterator[str]:
    path.chmod(file)
    path.parent.chmod(folder)
    with acting_as_nobody():
        yield str(path)


READ_ONLY = [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)]


@pytest.mark.parametrize(("file", "folder"), READ_ONLY)
def test_a_read_only_store_can_be_read(path: Path, file: int, folder: int) -> None:
    with locked(path, file, folder) as where, Store(where, reading=True) as store:
        (record,) = store.find()
        assert newest_run(store) == [record]
        assert get_baseline(store, "main") == select_records("newest", store).records == [record]


@pytest.mark.parametrize(("file", "folder"), READ_ONLY)
@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_store_is_refused_for_writing(path: Path, file: int, folder: int, existing: bool) -> None:
    with locked(path, file, folder) as where, pytest.raises(BadInput) as caught:
        Store(where, existing=existing)
    assert str(caught.value) == f"the store {path} is read-only; name another with --store"


def test_records_of_a_process_that_is_writing_are_seen(path: Path) -> None:
    with Store(str(path)) as writer:
        journal = begin(writer, "plan", "other", [])
        journal.add_record(make_record(id="new", run=journal.run))
        with locked(path) as where, Store(where, reading=True) as store:
            assert {record.id for record in store.find()} == {"new", make_record().id}


def test_a_mistyped_name_creates_no_store(tmp_path: Path) -> None:
    for options in ({"existing": True}, {"reading": True}):
        with pytest.raises(BadInput, match="there is no store"):
            Store(str(tmp_path / "none.db"), **options)
    assert not list(tmp_path.iterdir())
