"""One way to show a stranger's text."""

from pathlib import Path

import pytest

import tare
from tare.system.printable import printable

SOURCE = Path(tare.__file__).parent


@pytest.mark.parametrize(
    ("text", "longest", "shown"),
    [
        ("void f<int>(a?)", None, "void f<int>(a?)"),
        ("été ▁", None, "été ▁"),
        ("up\x1b[2Jdown\n\u202e\ud800", None, "up\ufffd[2Jdown\ufffd\ufffd\ufffd"),
        ("\x1b\x1blong", 3, "\ufffd\ufffdl"),
        ("", 3, ""),
    ],
)
def test_nothing_of_it_steers_a_terminal(text: str, longest: int | None, shown: str) -> None:
    assert printable(text, longest) == shown
    assert printable(shown) == shown


def test_nobody_replaces_characters_in_another_way() -> None:
    replacing = [path for path in SOURCE.rglob("*.py") if ".isprintable() else" in path.read_text()]
    assert [path.name for path in replacing] == ["printable.py"]
