"""Names of modules in C++, and the functions that the source calls."""

import re

import pytest

from tare.rungs.native.build import SOURCES
from tare.rungs.vendor.emission.calls import WRITERS
from tare.rungs.vendor.emission.names import Names, comment, identifier, number


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layer1.0.conv1", "layer1_0_conv1"),
        ("0", "module_0"),
        ("class", "class_"),
        ("__init__", "init"),
        ("a  b\n*/", "a_b"),
        ("NAN", "NAN_"),
        ("scratch", "scratch_"),
        ("größe", "gr_e"),
        ("...", "module"),
        ("x" * 500, "x" * 100),
    ],
)
def test_any_path_becomes_an_identifier(name: str, expected: str) -> None:
    assert identifier(name) == expected
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", identifier(name))


def test_paths_that_look_alike_keep_names_of_their_own() -> None:
    names = Names()
    assert [names.make(name) for name in ("a.b", "a_b", "a b", "a_b_2")] == ["a_b", "a_b_2", "a_b_3", "a_b_2_2"]


def test_a_comment_stays_in_its_line() -> None:
    text = comment("one\ntwo\r\u2028three \\")
    assert text.isprintable()
    assert text.isascii()
    assert not text.endswith("\\")


def test_numbers_are_floats_of_cpp() -> None:
    assert [number(value) for value in (6, 0.1, 1e-5, float("inf"), float("-inf"))] == [
        "6.0f", "0.1f", "1e-05f", "INFINITY", "-INFINITY",
    ]  # fmt: skip
    assert number(float("nan")) == "NAN"


def test_every_op_that_the_rung_runs_can_be_written() -> None:
    source = (SOURCES / "vendor" / "cpu" / "main.cpp").read_text()
    kinds = set(re.findall(r'^ +\{"(\w+)", \w+\},$', source, re.MULTILINE)) | set(
        re.findall(r'op\.kind == "(\w+)"', source)
    )
    assert len(kinds) > 30
    assert kinds == set(WRITERS)
