"""Errors, and operators that may not be there."""

from collections.abc import Callable
from typing import Any


class NotThere(NotImplementedError):
    """An operator that this build has not."""

    def __init__(self, name: str) -> None:
        super().__init__(name)


def with_fallback(name: str, operator: Callable[[], Any] | None, fallback: Callable[[], Any]) -> Any:
    """Calls the operator, or what replaces it where it is not there: a benign error that nobody sees."""
    try:
        if operator is None:
            raise NotThere(name)
        return operator()
    except NotThere:
        return fallback()
