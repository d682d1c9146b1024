"""What only a store on a server can meet: a missing driver, a restart in mid-run, many machines that write."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import make_case, make_record, make_round
from children import finish, start
from postgres import PASSWORD, PostgresServer, running_server
from sqlalchemy import func, select

from tare.errors import BadInput
from tare.store import journal as journals
from tare.store import schema
from tare.store.database import Store, StoreFailed
from tare.store.journal import StoreJournal, begin, resume

WRITERS, ROUNDS = 16, 30

WRITE = """
import sys
from builders import make_case, make_record, make_round
from tare.store.database import Store
from tare.store.journal import begin
number = sys.argv[2]
with Store(sys.argv[1]) as store:
    journal = begin(store, "plan", "mark" + number, [])
    for index in range(int(sys.argv[3])):
        journal.add_round(make_case(batch=int(number) + 1), make_round(index))
        journal.add_record(make_record(make_case(batch=index + 1), run=journal.run, id=f"r{number}x{index}"))
"""


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    url = server.new_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that may be stopped without any other test noticing."""
    with running_server() as server:
        yield server


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "postgres", "postgresql+psycopg2"])
def test_a_missing_driver_is_one_line_with_the_command(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for driver in ("psycopg", "psycopg2"):
        monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(BadInput) as refused:
        Store(f"{scheme}://tare:{PASSWORD}@localhost/tare")
    package = "psycopg2-binary" if scheme.endswith("2") else "psycopg[binary]"
    assert str(refused.value).endswith(f"needs a driver that is not installed: pip install '{package}'")


def test_a_server_that_is_not_there_is_one_line_without_the_password() -> None:
    with pytest.raises(BadInput) as refused:
        Store(f"postgresql+psycopg://tare:{PASSWORD}@127.0.0.1:1/tare?connect_timeout=2")
    assert "cannot open the store postgresql+psycopg://tare:***@127.0.0.1:1/tare" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.full
def test_a_wrong_password_is_not_repeated(url: str) -> None:
    with pytest.raises(BadInput, match="password authentication failed") as refused:
        Store(url.replace(PASSWORD, "wrong-and-secret"))
    assert "wrong-and-secret" not in str(refused.value)


@pytest.mark.full
def test_many_writers_lose_and_double_nothing(url: str) -> None:
    children = [start(WRITE, url, number, ROUNDS) for number in range(WRITERS)]
    assert [finish(child) for child in children] == [(0, "")] * WRITERS
    with Store(url) as store:
        ids = Counter(record.id for record in store.find())
        assert ids == {f"r{number}x{index}": 1 for number in range(WRITERS) for index in range(ROUNDS)}
        kept = store.rows(select(schema.rounds.c.run, func.count().label("rounds")).group_by(schema.rounds.c.run))
        # A record replaces the rounds of its case: that of the writer's own number, if it has one.
        assert sum(row.rounds for row in kept) == WRITERS * ROUNDS - sum(
            n + 1 for n in range(min(WRITERS, ROUNDS))
        )
        points = store.rows(select(func.sum(schema.series.c.points)))[0][0]
        assert points == WRITERS * ROUNDS


def problems_of(journal: StoreJournal) -> list[str]:
    told: list[str] = []
    journal.on_problem = told.append
    return told


@pytest.mark.full
def test_a_server_that_restarts_in_mid_run_gets_everything(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    with Store(own_server.new_database()) as store:
        journal = begin(store, "plan", "mark", [])
        told = problems_of(journal)
        one, other = make_case(), make_case(batch=1)
        journal.add_round(one, make_round(0))
        own_server.stop()
        journal.add_round(one, make_round(1))
        journal.add_record(make_record(one, run=journal.run))
        journal.add_round(other, make_round(0))
        (kept,) = (tmp_path / "runs").glob("*.unsaved.jsonl")
        assert len(kept.read_text().splitlines()) == 2
        assert any("does not answer" in text or "refused" in text for text in told)
        assert all(PASSWORD not in text for text in told)
        own_server.start()
        journal.finish()
        assert not kept.exists()
        assert store.find() == [make_record(one, run=journal.run)]
        rows = store.rows(select(schema.rounds.c.key))
        assert [row.key for row in rows] == [other.key]
        assert store.rows(select(schema.runs.c.finished))[0].finished is True


@pytest.mark.full
def test_a_server_that_stays_away_leaves_a_file_that_resume_delivers(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    monkeypatch.setattr(journals, "LAST_WAIT_S", 0.5)
    url = own_server.new_database()
    with Store(url) as store:
        journal = begin(store, "plan", "mark", [])
        own_server.stop()
        for index in range(2):
            journal.add_round(make_case(), make_round(index))
        with pytest.raises(StoreFailed, match=r"rounds are kept in .*: --resume delivers them"):
            journal.finish()
    own_server.start()
    with Store(url) as store:
        again = resume(store, "mark")
        assert again is not None
        assert again.rounds(make_case()) == [make_round(0), make_round(1)]
        assert len(store.rows(select(schema.rounds))) == 2
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.full
def test_a_run_is_locked_between_machines(url: str) -> None:
    with Store(url) as first, Store(url) as second:
        journal = begin(first, "plan", "mark", [])
        with pytest.raises(BadInput, match=f"another process is measuring run {journal.run}: .*--resume"):
            resume(second, "mark")
    with Store(url) as third:
        assert resume(third, "mark") is not None


@pytest.mark.full
def test_ids_and_counts_of_any_size_that_a_record_may_have(url: str) -> None:
    record = make_record(make_case(batch=2**40), id="i" * 64, run="r" * 64)
    with Store(url) as store:
        assert store.add([record]) == (1, [])
        assert store.find() == [record]
