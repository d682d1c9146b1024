"""Environment variables from the command line."""

import pytest

from tare.cli.check import parse_variables
from tare.errors import BadInput


def test_a_value_may_be_empty_or_hold_anything() -> None:
    assert parse_variables(["A=1", "_b2=", "A=x=y z"], "--env") == {"A": "x=y z", "_b2": ""}


@pytest.mark.parametrize("pair", ["", "A", "=1", "2A=1", "A B=1", "A=\0"])
def test_what_is_no_variable_is_refused(pair: str) -> None:
    with pytest.raises(BadInput, match="--env takes NAME=VALUE, not '"):
        parse_variables([pair], "--env")
