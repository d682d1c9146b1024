"""Views are what torch's are: the same elements, whatever is done to them."""

from math import prod
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tare.rungs.vendor.fusion.tensors import (
    Tensor,
    TensorView,
    common_dims,
    contiguous_strides,
    reshaped_strides,
    strides_over,
    whole,
)

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def elements(view: TensorView, data: torch.Tensor) -> torch.Tensor:
    """Negative strides, which torch does not have, included."""
    places = torch.full((), view.offset)
    for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        steps = torch.arange(size) * stride
        places = places + steps.reshape([-1 if each == axis else 1 for each in range(len(view.shape))])
    return data.reshape(-1)[places.expand(view.shape)]


@st.composite
def rearrangements(draw: Any) -> tuple[TensorView, torch.Tensor, torch.Tensor]:
    """A view after some operations, the numbers of the tensor, and what torch makes of them."""
    shape = draw(SHAPES)
    data = torch.arange(prod(shape)).reshape(shape)
    view, expected = whole(Tensor(shape, "i64")), data
    for _ in range(draw(st.integers(0, 5))):
        axis = draw(st.integers(0, max(len(view.shape) - 1, 0)))
        operation = draw(st.sampled_from(["permute", "slice", "flip", "expand", "reshape", "select"]))
        if operation == "permute":
            order = draw(st.permutations(range(len(view.shape))))
            view, expected = view.permute(order), expected.permute(order)
        elif operation == "slice" and view.shape:
            start = draw(st.integers(0, view.shape[axis] - 1))
            step = draw(st.integers(1, 3))
            expected = expected.narrow(axis, start, view.shape[axis] - start)
            expected = expected[(*[slice(None)] * axis, slice(None, None, step))]
            view = view.slice(axis, start, expected.shape[axis], step)
        elif operation == "flip" and view.shape:
            view, expected = view.flip([axis]), expected.flip([axis])
        elif operation == "expand":
            new = tuple(draw(st.integers(1, 3)) if size == 1 else size for size in (1, *view.shape))
            view, expected = view.expand(new), expected.expand(new)
        elif operation == "reshape":
            joined = draw(st.integers(0, len(view.shape)))
            new = (*view.shape[:joined], prod(view.shape[joined:]))
            reshaped = view.reshape(new)
            if reshaped is not None:
                view = reshaped
                expected = expected.reshape(new)
        elif operation == "select" and len(view.shape) > 1:
            at = draw(st.integers(0, view.shape[axis] - 1))
            view, expected = view.slice(axis, at, 1).without(axis), expected.select(axis, at)
    return view, data, expected


@given(rearrangements())
def test_a_view_holds_what_torchs_view_holds(made: tuple[TensorView, torch.Tensor, torch.Tensor]) -> None:
    view, data, expected = made
    assert view.shape == tuple(expected.shape)
    assert torch.equal(elements(view, data), expected)


@given(SHAPES, st.data())
def test_a_reshape_without_a_copy_is_found_where_torch_finds_it(shape: tuple[int, ...], data: Any) -> None:
    tensor = torch.arange(prod(shape)).reshape(shape).permute(data.draw(st.permutations(range(len(shape)))))
    new = data.draw(st.permutations([prod(tensor.shape[:1]), *tensor.shape[1:]]))
    try:
        expected = tensor.view(new).stride()
    except RuntimeError:
        expected = None
    strides = reshaped_strides(tuple(tensor.shape), tuple(tensor.stride()), tuple(new))
    assert (strides is None) == (expected is None)
    if strides is not None and expected is not None:
        moves = [(size, stride) for size, stride in zip(new, strides, strict=True) if size > 1]
        assert moves == [(size, stride) for size, stride in zip(new, expected, strict=True) if size > 1]


@given(SHAPES, SHAPES)
def test_common_dimensions_divide_both_shapes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    # Two shapes of one size: either one times the other's size.
    one, other = (*first, prod(second)), (prod(first), *second)
    dims = common_dims(one, other)
    assert dims is not None
    assert prod(dims) == prod(one)
    for shape in (one, other):
        strides = strides_over(dims, shape, contiguous_strides(shape))
        assert strides == contiguous_strides(dims)


def test_shapes_that_cross_have_no_common_dimensions() -> None:
    assert common_dims((6, 4), (4, 6)) is None
    assert common_dims((6, 4), (2, 3, 4)) == (2, 3, 4)
    assert common_dims((1, 24), (24, 1, 1)) == (24,)


@given(rearrangements())
def test_linear_views_are_the_tensor_itself(made: tuple[TensorView, torch.Tensor, torch.Tensor]) -> None:
    view, data, expected = made
    same = view.size == data.numel() and torch.equal(expected.reshape(-1), data.reshape(-1))
    assert not view.is_linear or same
