"""Tags: which are accepted, and that no secret gets into a record."""

import msgspec
import pytest
from builders import make_record

from tare.errors import BadInput
from tare.records.codec import decode_record, encode
from tare.records.tags import LONGEST_VALUE, MOST_TAGS, read_tags


def test_tags_are_read_in_their_order() -> None:
    assert read_tags(["pr=12", "note=fast path, again", "a.b-c_d=x=y", "pr=12"]) == {
        "pr": "12", "note": "fast path, again", "a.b-c_d": "x=y",
    }  # fmt: skip
    assert read_tags([]) == {}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["pr"], "takes KEY=VALUE"),
        (["=x"], "takes KEY=VALUE"),
        (["p r=x"], "not 'p r'"),
        (["k" * 65 + "=x"], "at most 64"),
        (["ключ=x"], "not '\\\\u043a"),
        (["pr="], "--tag pr: the value has 1 to 200 printable characters"),
        (["pr=a\nb"], "printable"),
        (["pr=" + "x" * (LONGEST_VALUE + 1)], "1 to 200"),
        (["pr=1", "pr=2"], "--tag pr is given twice"),
        ([f"t{i}=1" for i in range(MOST_TAGS + 1)], "a record keeps 50 tags"),
    ],
)
def test_what_is_no_tag_is_refused_in_one_line(pairs: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message) as refusal:
        read_tags(pairs)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "pair", ["api_token=hunter2hunter2", "note=ghp_" + "a1B2" * 9, "db=pg://me:hunter2@host/x"]
)
def test_a_secret_is_refused_and_not_repeated(pair: str) -> None:
    with pytest.raises(BadInput, match="looks like a secret") as refusal:
        read_tags([pair])
    assert pair.partition("=")[2] not in str(refusal.value)


def test_a_secret_in_a_file_is_hidden() -> None:
    document = msgspec.to_builtins(make_record(tags={"pr": "12"})) | {"tags": {"pr": "12", "token": "hunter2"}}
    record = decode_record(msgspec.json.encode(document), "a file")
    assert record.tags == {"pr": "12", "token": "***"}
    assert b"hunter2" not in encode(record)


def test_a_tag_of_a_file_is_bounded() -> None:
    document = msgspec.to_builtins(make_record())
    for tags in ({"a b": "x"}, {"a": "x" * 201}, {f"t{i}": "" for i in range(51)}):
        with pytest.raises(BadInput, match="tags"):
            decode_record(msgspec.json.encode(document | {"tags": tags}), "a file")
