"""What is said of a step that no graph can hold. Capturing itself needs a GPU (tests/gpu)."""

import pytest

from tare.errors import Unsupported
from tare.rungs.torch.cudagraph import why_not

NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing\nSearch the manual for it."


def raised(message: str) -> Exception:
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        return error


def test_the_line_that_cannot_be_captured_is_named() -> None:
    found = why_not(raised(NOT_PERMITTED))
    assert isinstance(found, Unsupported)
    said, _, where = str(found).partition(", at ")
    assert said == (
        "no CUDA graph can hold this step: CUDA error: operation not permitted when stream is capturing"
    )
    assert where.startswith("test_cudagraph.py:")
    assert where.endswith("(raise RuntimeError(message))")


@pytest.mark.parametrize("message", ["CUDA out of memory. Tried to allocate 2 GiB", "shapes differ", ""])
def test_any_other_error_stays_what_it_is(message: str) -> None:
    error = raised(message)
    assert why_not(error) is error
