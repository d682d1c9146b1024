"""Several processes on one store: nothing is lost or doubled, and none fails because another writes."""

from pathlib import Path

import pytest
from children import finish, start
from sqlalchemy import select

from tare.store import schema
from tare.store.database import Store

WRITERS = 5
ROUNDS = 12

WRITE = """
import sys
from builders import make_case, make_record, make_round
from tare.store.database import Store
from tare.store.journal import begin
print("ready", flush=True)
sys.stdin.readline()
journal = begin(Store(sys.argv[1]), "plan", "mark" + sys.argv[2], [])
done, left = make_case(rung="done"), make_case(rung="left")
for index in range(int(sys.argv[3])):
    journal.add_round(done, make_round(index))
    journal.add_round(left, make_round(index))
journal.add_record(make_record(done, run=journal.run, id="by" + sys.argv[2]))
"""

CREATE = """
import sys
from tare.store.database import Store
print("ready", flush=True)
sys.stdin.readline()
for address in sys.argv[3:]:
    Store(address).close()
"""


def run_together(code: str, *args: object) -> None:
    """Starts the processes, waits until each has imported everything, and releases all of them at once."""
    children = [start(code, args[0], number, *args[1:]) for number in range(WRITERS)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [finish(child) for child in children] == [(0, "")] * WRITERS


def test_writers_lose_nothing(address: str) -> None:
    run_together(WRITE, address, ROUNDS)
    store = Store(address)
    assert sorted(record.id for record in store.find()) == [f"by{n}" for n in range(WRITERS)]
    kept = store.rows(select(schema.rounds.c.run, schema.rounds.c.key, schema.rounds.c.position))
    runs = {row.run for row in kept}
    assert len(runs) == WRITERS
    assert {row.key.split("/")[1] for row in kept} == {"left"}
    assert sorted((row.run, row.position) for row in kept) == [
        (run, index) for run in sorted(runs) for index in range(ROUNDS)
    ]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def test_several_first_uses_of_a_store_create_it_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        addresses = [str(tmp_path / f"{number}.db") for number in range(8)]
    else:
        server = request.getfixturevalue("server")
        addresses = [server.new_database() for _ in range(4)]
    run_together(CREATE, "", *addresses)
    for address in addresses:
        with Store(address) as store:
            assert [row.version_num for row in store.rows(select(schema.revision))] == [schema.REVISION]
