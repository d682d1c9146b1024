"""Acting as a user to whom something may be read-only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def acting_as_nobody() -> Iterator[None]:
    """For root, to whom nothing is read-only, another user; anybody else stays who they are."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
