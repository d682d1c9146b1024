"""No message shows a password of a database URL, not even of an invalid one."""

import pytest

from tare.errors import BadInput
from tare.store.connect import hide_passwords, safe_message
from tare.store.database import Store


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
    assert hide_passwords(where) == safe


def test_a_library_that_repeats_the_password_is_not_quoted() -> None:
    where = "postgresql://u:se%20c@ret@host/db"
    for text in ('no host "ret@host"', "cannot parse se%20c", "login failed with se c"):
        assert safe_message(ValueError(text), where) == "ValueError, which repeats the password"
    assert safe_message(ValueError("no host"), where) == "no host"


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
