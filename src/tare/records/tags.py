"""Tags: what a user says about a measurement, kept with its records."""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from tare.errors import BadInput
from tare.system.redaction import HIDDEN, redact
from tare.system.variables import is_secret

NAME, LONGEST_NAME, LONGEST_VALUE, MOST_TAGS = r"[A-Za-z0-9_.\-]+", 64, 200, 50
# Before the name of a tag where records are selected by it.
PREFIX = "tag."

Tags = Annotated[
    dict[
        Annotated[str, msgspec.Meta(pattern=rf"^{NAME}\Z", max_length=LONGEST_NAME)],
        Annotated[str, msgspec.Meta(max_length=LONGEST_VALUE)],
    ],
    msgspec.Meta(max_length=MOST_TAGS),
]


def read_tags(pairs: Sequence[str], option: str = "--tag") -> dict[str, str]:
    """Tags from KEY=VALUE. A secret is refused: records are made to be published."""
    tags: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        shown = redact(name)[:LONGEST_NAME]
        if not equals or not re.fullmatch(NAME, name) or len(name) > LONGEST_NAME:
            raise BadInput(
                f"{option} takes KEY=VALUE with a key of letters, digits, '_', '.' and '-', at most {LONGEST_NAME}"
                f" of them, not {shown!a}"
            )
        if not value or len(value) > LONGEST_VALUE or not value.isprintable():
            raise BadInput(f"{option} {shown}: the value has 1 to {LONGEST_VALUE} printable characters")
        if is_secret(name, value):
            raise BadInput(f"{option} {shown} looks like a secret, and records are made to be published")
        if tags.setdefault(name, value) != value:
            raise BadInput(f"{option} {shown} is given twice, with two values")
    if len(tags) > MOST_TAGS:
        raise BadInput(f"{option} is given {len(tags)} times; a record keeps {MOST_TAGS} tags")
    return tags


def hide_secrets(tags: dict[str, str]) -> None:
    """Puts stars for the values that look like a secret: a file of another machine may hold any."""
    tags |= {name: HIDDEN for name, value in tags.items() if is_secret(name, value)}
