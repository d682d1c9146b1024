"""A full disk: stored rounds stay, the round that cannot be stored is written elsewhere, and --resume loads it."""

from pathlib import Path

import pytest
from builders import make_case, make_record, make_round
from children import finish, start

from tare.store.database import Store, StoreFailed
from tare.store.journal import StoreJournal, begin, resume

A, B = make_case(), make_case(rung="compile")

FILL = """
import resource, sys
from pathlib import Path
from builders import make_case, make_record, make_round
from tare.store.database import Store, StoreFailed
from tare.store.journal import begin
journal = begin(Store(sys.argv[1]), "plan", "mark", [])
journal.add_record(make_record(run=journal.run))
# Python ignores SIGXFSZ, so a write beyond the limit fails as on a full disk.
limit = Path(sys.argv[1]).stat().st_size + 60_000
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for index in range(1000):
    try:
        journal.add_round(make_case(rung="compile"), make_round(index, notes=["x" * 2000]))
    except StoreFailed as error:
        print(index)
        print(error)
        break
"""

NOWHERE = """
import resource, sys
from builders import make_case, make_round
from tare.store.database import Store, StoreFailed
from tare.store.journal import begin
journal = begin(Store(sys.argv[1]), "plan", "mark", [])
# From here on no file takes a byte: that of the store no more than one in any other folder.
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    journal.add_round(make_case(), make_round(0))
except StoreFailed as error:
    print(error)
"""


def limited(store: Store, pages: int) -> None:
    """Limits the database of this store to so many pages."""
    with store.transaction() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")


def pages(store: Store) -> int:
    with store.transaction() as connection:
        number: int = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    return number


def unsaved(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.unsaved.jsonl"))


def reopened(journal: StoreJournal, tmp_path: Path) -> Store:
    """The same store without its limit, after the process that filled it has ended."""
    journal._store.close()
    return Store(str(tmp_path / "full.db"))


def overflow(journal: StoreJournal, index: int = 0) -> str:
    with pytest.raises(StoreFailed) as caught:
        journal.add_round(B, make_round(index, notes=["x" * 100_000]))
    return str(caught.value)


@pytest.fixture
def journal(tmp_path: Path) -> StoreJournal:
    """A journal whose store has one record and no room for another."""
    store = Store(str(tmp_path / "full.db"))
    journal = begin(store, "plan", "mark", [])
    journal.add_record(make_record(A, run=journal.run))
    limited(store, pages(store))
    return journal


def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "full.db"
    status, output = finish(start(FILL, path))
    index, message = output.splitlines()
    assert status == 0
    assert int(index) >= 1, "some rounds fitted"
    assert message.startswith(f"cannot write the store {path}: ")
    (file,) = unsaved(tmp_path)
    assert str(file) in message
    assert "--resume" in message

    store = Store(str(path))
    again = resume(store, "mark")
    assert again is not None
    assert store.find() == [make_record(A, run=again.run)]
    whole = [make_round(i, notes=["x" * 2000]) for i in range(int(index) + 1)]
    assert again.rounds(B) == whole
    assert unsaved(tmp_path) == []
    last = resume(store, "mark")
    assert last is not None
    assert last.rounds(B) == whole, "the unsaved round is in the store now"


def test_a_database_that_may_not_grow(journal: StoreJournal, tmp_path: Path) -> None:
    message = overflow(journal)
    assert "database or disk is full" in message
    assert str(unsaved(tmp_path)[0]) in message
    store = Store(str(tmp_path / "full.db"))
    assert store.find() == [make_record(A, run=journal.run)]


def test_unsaved_rounds_are_loaded_once(journal: StoreJournal, tmp_path: Path) -> None:
    for index in (0, 1, 1):
        overflow(journal, index)
    store = reopened(journal, tmp_path)
    for _ in range(2):
        again = resume(store, "mark")
        assert again is not None
        assert [done.index for done in again.rounds(B)] == [0, 1]
    assert unsaved(tmp_path) == []


def test_an_unsaved_round_that_still_cannot_be_stored_keeps_its_file(
    journal: StoreJournal, tmp_path: Path
) -> None:
    overflow(journal)
    kept = unsaved(tmp_path)
    with pytest.raises(StoreFailed):
        StoreJournal(journal._store, journal.run).load()
    assert unsaved(tmp_path) == kept


@pytest.mark.parametrize("line", [b"{", b"[]", b'["a/b"]', b'["a/b", {}]', b"\xff\xfe", b"1"])
def test_a_damaged_line_does_not_affect_the_others_and_keeps_the_file(
    journal: StoreJournal, tmp_path: Path, line: bytes
) -> None:
    overflow(journal)
    (file,) = unsaved(tmp_path)
    file.write_bytes(line + b"\n" + file.read_bytes())
    store = reopened(journal, tmp_path)
    again = resume(store, "mark")
    assert again is not None
    assert [done.index for done in again.rounds(B)] == [0]
    assert file.exists()
    again.add_record(make_record(B, run=again.run, id="second"))
    last = resume(store, "mark")
    assert last is not None
    assert last.rounds(B) == [], "what has a record is not taken in again"


def test_where_the_store_is_full_the_round_goes_elsewhere(
    journal: StoreJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere.jsonl"
    # /dev/full takes no byte, as a full disk does.
    paths = [Path("/dev/full"), tmp_path, elsewhere]
    monkeypatch.setattr(StoreJournal, "_unsaved_paths", lambda _: paths)
    assert str(elsewhere) in overflow(journal)
    assert elsewhere.read_bytes().endswith(b"\n")


def test_a_round_that_can_be_written_nowhere_stays_in_memory(
    journal: StoreJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreJournal, "_unsaved_paths", lambda _: [Path("/dev/full")])
    assert "memory only: no folder can be written" in overflow(journal)
    assert [done.index for done in journal.rounds(B)] == [0]


def test_where_no_file_takes_a_byte_the_message_says_so(tmp_path: Path) -> None:
    status, output = finish(start(NOWHERE, tmp_path / "full.db"))
    assert status == 0, output
    assert "memory only: no folder can be written" in output
    assert "Traceback" not in output


def test_the_home_folder_is_used_where_there_is_no_folder_for_temporary_files(
    journal: StoreJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(home))
    # The folder of the store takes no new file, and there root is like anybody.
    (tmp_path / f"tare-{journal.run}.unsaved.jsonl").mkdir()
    assert str(home) in overflow(journal)
    again = resume(reopened(journal, tmp_path), "mark")
    assert again is not None
    assert [done.index for done in again.rounds(B)] == [0]
    assert unsaved(home) == []


def test_a_user_without_a_home_folder(journal: StoreJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    assert "is kept in" in overflow(journal)
