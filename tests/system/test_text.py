"""Text from outside is made safe for a terminal."""

import pytest

from tare.system.text import printable, to_ascii


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
def test_unprintable_characters_are_replaced(text: str, longest: int | None, shown: str) -> None:
    assert printable(text, longest) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("6.31 ±0.04 µs", "6.31 +-0.04 us"),
        ("██▌ mlp · infer…", "### mlp - infer..."),
        ("été", "?t?"),
        ("as", "as"),
    ],
)
def test_an_ascii_terminal_gets_equivalents(text: str, shown: str) -> None:
    assert to_ascii(text) == shown
