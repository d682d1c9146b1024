"""No message shows a password of a database URL, not even of an invalid one."""

import pytest

from tare.errors import BadInput
from tare.store.database import Store, hide_passwords


@pytest.mark.parametrize(
    ("where", "safe"),
    [
        ("postgresql://u:secret@host/db", "postgresql://u:***@host/db"),
        ("postgresql+psycopg://u:secret@host:1/db?x=1", "postgresql+psycopg://u:***@host:1/db?x=1"),
        ("postgresql://u:sec@ret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:sec:ret/@host/db", "postgresql://u:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql:/u:secret@host/db", "postgresql:/u:***@host/db"),
        ("mysql://host/db?user=u&password=secret&x=1", "mysql://host/db?user=u&password=***&x=1"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("/home/a/x@y:z.db", "/home/a/x@y:z.db"),
    ],
)
def test_a_password_is_hidden_and_nothing_else(where: str, safe: str) -> None:
    assert hide_passwords(where, where) == safe


def test_a_library_that_repeats_a_part_of_the_password_is_quoted_without_it() -> None:
    where = "postgresql://u:se%20c@ret@host/db"
    assert hide_passwords('no host "ret@host"', where) == 'no host "***@host"'
    assert hide_passwords("cannot parse se%20c", where) == "cannot parse ***"
    assert hide_passwords("login failed with se c", where) == "login failed with ***"
    assert hide_passwords("no host", where) == "no host"


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize(
    "where",
    [
        "postgresql://u:secret@localhost:port/db",
        "nodb://u:secret@localhost/db",
        "postgresql:/u:secret@localhost/db",
        "nodb://localhost/db?password=secret",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(where: str, reading: bool) -> None:
    with pytest.raises(BadInput) as caught:
        Store(where, reading=reading)
    assert "secret" not in str(caught.value)
    assert "***" in str(caught.value)
