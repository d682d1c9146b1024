"""Who may do what: tokens, of which only digests are kept, each for one project or for all."""

import hashlib
import secrets
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from tare.errors import BadInput, unknown
from tare.store import schema
from tare.store.database import Store
from tare.store.regressions import now

# Begins every token, so that one that leaks is recognised (and hidden by tare.system.redaction).
PREFIX = "tare_"
# 256 random bits: their digest needs no salt, and cannot be guessed.
RANDOM_BYTES = 32
LONGEST_NAME = 80
LONGEST_TOKEN = 200


class TokenHolder(NamedTuple):
    """Somebody whose token is known. An empty project means all."""

    name: str
    project: str
    may_write: bool


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(store: Store, name: str, project: str = "", may_write: bool = False) -> str:
    """The new token, which nobody can read again."""
    for text, what in ((name, "the name of a token"), (project, "a project")):
        if len(text) > LONGEST_NAME or not text.isprintable():
            raise BadInput(f"{what} has at most {LONGEST_NAME} printable characters")
    table = schema.tokens
    if not name.strip():
        raise BadInput("a token has a name, to be revoked by")
    if store.rows(sa.select(table.c.id).where(table.c.name == name, table.c.revoked.is_(None))):
        raise BadInput(f"there is a token '{name}' already: revoke it, or choose another name")
    token = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
    row = {
        "id": uuid.uuid4().hex[:16],
        "name": name,
        "digest": _digest(token),
        "project": project,
        "may_write": may_write,
        "created": now(),
    }
    with store.transaction() as connection:
        connection.execute(sa.insert(table).values(row))
    return token


def revoke_token(store: Store, name: str) -> None:
    table = schema.tokens
    valid = sa.and_(table.c.name == name, table.c.revoked.is_(None))
    with store.transaction() as connection:
        if not connection.execute(sa.update(table).where(valid).values(revoked=now())).rowcount:
            known = [row["name"] for row in list_tokens(store) if not row["revoked"]]
            raise unknown("token", name, known, store.where)


def list_tokens(store: Store) -> list[dict[str, Any]]:
    """Everything but the digests."""
    table = schema.tokens
    names: Sequence[str] = ("name", "project", "may_write", "created", "used", "revoked")
    rows = store.rows(sa.select(*(table.c[name] for name in names)).order_by(table.c.created))
    return [dict(row._mapping) for row in rows]


def find_reader(store: Store, token: str) -> TokenHolder | None:
    """Whose token it is; None for one that is unknown or revoked. The database compares digests, so that the time
    it takes says nothing about a token."""
    if not token.startswith(PREFIX) or len(token) > LONGEST_TOKEN:
        return None
    table = schema.tokens
    rows = store.rows(sa.select(table).where(table.c.digest == _digest(token), table.c.revoked.is_(None)))
    return TokenHolder(rows[0].name, rows[0].project, rows[0].may_write) if rows else None


def note_write(store: Store, reader: TokenHolder, action: str, subject: str) -> None:
    """In the audit log, and when the token was used last."""
    entry = {
        "id": uuid.uuid4().hex[:16],
        "created": now(),
        "token": reader.name,
        "action": action,
        "subject": subject,
    }
    with store.transaction() as connection:
        connection.execute(sa.insert(schema.audit).values(entry))
        of_reader = sa.and_(schema.tokens.c.name == reader.name, schema.tokens.c.revoked.is_(None))
        connection.execute(sa.update(schema.tokens).where(of_reader).values(used=entry["created"]))


def read_audit(store: Store, most: int = 1000) -> list[dict[str, Any]]:
    table = schema.audit
    columns = (table.c.created, table.c.token, table.c.action, table.c.subject)
    return [
        dict(row._mapping) for row in store.rows(sa.select(*columns).order_by(table.c.created.desc()).limit(most))
    ]
