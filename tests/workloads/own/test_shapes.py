"""Shapes as text, and what they draw."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tare.errors import BadInput
from tare.workloads.own.shapes import DTYPES, Shape, draw_inputs, inputs_text, read_shape


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("8x3x224x224", Shape((8, 3, 224, 224))),
        ("8x128:int64<30522", Shape((8, 128), "int64", 30522)),
        ("ids=2x5:int32<7", Shape((2, 5), "int32", 7, "ids")),
        ("16", Shape((16,))),
        ("4x1:bool", Shape((4, 1), "bool")),
    ],
)
def test_a_shape_is_read(text: str, shape: Shape) -> None:
    assert read_shape(text) == shape


@pytest.mark.parametrize(
    "text", ["", "x", "8x", "8x-1", "0x3", "8x3:float99", "8x3<5", "8x3:int64<0", "8,3", "a b=3", "1x" * 20 + "1",
             "99999999999x99999999999"],
)  # fmt: skip
def test_what_is_no_shape_is_one_line(text: str) -> None:
    with pytest.raises(BadInput) as error:
        read_shape(text)
    assert "\n" not in str(error.value)


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(1, 9),
)
def test_what_is_drawn_has_the_shape_with_the_batch(sizes: tuple[int, ...], dtype: str, batch: int) -> None:
    text = "x".join(map(str, sizes)) + f":{dtype}"
    (drawn,) = draw_inputs([read_shape(text)], batch)
    assert tuple(drawn.shape) == (batch, *sizes[1:])
    assert drawn.dtype == getattr(torch, dtype)


def test_whole_numbers_stay_below_their_bound() -> None:
    (drawn,) = draw_inputs([read_shape("64x64:int64<3")], 64)
    assert set(drawn.flatten().tolist()) == {0, 1, 2}


def test_a_key_has_n_for_the_batch_so_that_it_is_the_same_for_all() -> None:
    shapes = [read_shape("8x128:int64<30522"), read_shape("8x128"), read_shape("30x2")]
    assert inputs_text(shapes) == "Nx128:int64<30522+Nx128+30x2"
    assert [tuple(t.shape) for t in draw_inputs(shapes, 2)] == [(2, 128), (2, 128), (30, 2)]
