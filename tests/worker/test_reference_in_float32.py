"""A reference in float32: for what is computed in less."""

from pathlib import Path

import pytest
from proof import make

from tare.cases.case import Precision
from tare.measure.parity import load_reference
from tare.worker.reference import make_reference


@pytest.mark.parametrize(("precision", "found_in"), [("bf16", "float32"), ("fp32", "float64")])
def test_what_is_in_float32_itself_is_compared_with_more(
    tmp_path: Path, precision: Precision, found_in: str
) -> None:
    make_reference(make("mlp", "eager", "infer", precision), tmp_path, storage="float32")
    found = load_reference(tmp_path)
    assert found is not None
    assert found.described == f"eager {found_in} on cpu"
    assert {str(array.dtype) for array in found.arrays.values()} == {found_in}
