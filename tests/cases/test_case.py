"""The case and its key: stable, unambiguous, readable back."""

import msgspec
import pytest
from builders import make_case
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.cases.case import CHOICES, Case
from tare.errors import BadInput

KEY = "mlp/eager/infer/cpu/fp32/batch=32,width=64/feed=device,layout=contiguous"

names = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.\-]{0,20}\Z")
counts = st.integers(1, 2**40)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rung = draw(names)
    if draw(st.booleans()):
        rung += ":" + draw(names)
    mode = draw(st.sampled_from(("infer", "train")))
    return make_case(
        workload=draw(names),
        rung=rung,
        mode=mode,
        device=draw(st.from_regex(r"\A[a-z]{1,8}(:[0-9]{1,3})?\Z")),
        precision=draw(st.sampled_from(CHOICES["precision"])),
        batch=draw(counts),
        sizes=draw(st.dictionaries(names.filter(lambda name: name != "batch"), counts, max_size=4)),
        feed=draw(st.sampled_from(CHOICES["feed"])),
        layout=draw(st.sampled_from(CHOICES["layout"])),
        optimizer=draw(st.sampled_from(CHOICES["optimizer"])) if mode == "train" else None,
        threads=draw(st.none() | counts),
    )


@settings(max_examples=40)
@given(cases())
def test_a_key_reads_back_as_the_same_case(case: Case) -> None:
    assert Case.parse(case.key) == case
    assert hash(Case.parse(case.key)) == hash(case)
    assert len(case.key.splitlines()) == 1


@settings(max_examples=40)
@given(cases(), cases())
def test_keys_are_equal_exactly_where_cases_are(a: Case, b: Case) -> None:
    assert (a.key == b.key) == (a == b)


def test_the_text_of_a_key() -> None:
    assert make_case().key == KEY
    train = make_case(
        workload="hf_bert", rung="compile:max", mode="train", device="cuda:1", precision="amp-bf16", batch=8,
        sizes={"tokens": 128, "layers": 2}, feed="pinned", layout="channels-last", optimizer="adamw", threads=4,
    )  # fmt: skip
    assert train.key == (
        "hf_bert/compile:max/train/cuda:1/amp-bf16/batch=8,layers=2,tokens=128"
        "/feed=pinned,layout=channels-last,optimizer=adamw,threads=4"
    )
    assert train.device_type == "cuda"


def test_a_ladder_leaves_only_the_rung_open() -> None:
    eager, compiled = make_case(), make_case(rung="compile")
    assert eager.ladder == compiled.ladder == KEY.replace("/eager/", "/*/")
    assert make_case(batch=64).ladder != eager.ladder


def test_the_order_of_sizes_is_not_part_of_a_case() -> None:
    a = make_case(sizes={"width": 64, "depth": 2})
    b = make_case(sizes={"depth": 2, "width": 64})
    assert a == b
    assert len({a, b}) == 1
    assert a != make_case(sizes={"depth": 3, "width": 64})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"workload": "a/b"}, "workload"),
        ({"workload": ""}, "workload"),
        ({"workload": "mlp\n"}, "workload"),
        ({"rung": "compile:"}, "rung"),
        ({"device": "CPU"}, "device"),
        ({"batch": 0}, "batch"),
        ({"batch": 2**40 + 1}, "batch"),
        ({"sizes": {"width": 0}}, "sizes"),
        ({"sizes": {"a=b": 1}}, "sizes"),
        ({"sizes": {"batch": 1}}, "'batch' is a field"),
        ({"precision": "fp8"}, "fp8"),
        ({"optimizer": "sgd"}, "an inference case has none"),
        ({"mode": "train", "optimizer": None}, "names its optimizer"),
        ({"threads": 0}, "threads"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_invalid_case_is_refused(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        make_case(**overrides)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "want workload/rung/mode"),
        ("mlp/eager", "want workload/rung/mode"),
        (KEY + "/", "want workload/rung/mode"),
        (KEY.replace("mlp", "m p"), "workload"),
        (KEY.replace("mlp", "mlp\n"), "workload"),
        (KEY.replace("infer", "guess"), "guess"),
        (KEY.replace("fp32", "fp8"), "fp8"),
        (KEY.replace("batch=32,", ""), "got `null` - at `\\$.batch`"),
        (KEY.replace("batch=32", "batch=0"), ">= 1 - at `\\$.batch`"),
        (KEY.replace("batch=32", "batch=many"), "got `str` - at `\\$.batch`"),
        (KEY.replace("batch=32", "batch=9999999999999"), "batch"),
        (KEY.replace("width=64", "width"), "not a list of name=value"),
        (KEY.replace("width=64", "width="), "not a list of name=value"),
        (KEY.replace("feed=device", "feeds=device"), "unknown field `feeds`"),
        (KEY + ",threads=x", "threads"),
        (KEY + ",optimizer=sgd", "an inference case has none"),
    ],
)
def test_an_invalid_key_is_refused_with_the_reason(key: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Case.parse(key)


@pytest.mark.parametrize(
    "key",
    [
        KEY.replace("batch=32,width=64", "width=64,batch=32"),
        KEY.replace("batch=32", "batch=1,batch=32"),
        KEY.replace("/feed=device,layout=contiguous", "/layout=contiguous,feed=device"),
        KEY.replace("/feed=device,layout=contiguous", "/feed=device"),
        KEY + ",workload=other",
    ],
)
def test_a_second_spelling_of_a_key_is_refused_with_the_right_one(key: str) -> None:
    with pytest.raises(BadInput, match="it would be written " + KEY.replace("*", "[*]")):
        Case.parse(key)


@given(st.text(max_size=80) | st.text(alphabet="mlp/eagr=,:0123\n", max_size=80))
def test_any_text_is_a_key_or_bad_input(text: str) -> None:
    try:
        case = Case.parse(text)
    except BadInput:
        return
    assert case.key == text
