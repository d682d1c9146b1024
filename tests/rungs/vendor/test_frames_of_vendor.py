"""The lowest rung's way to the BLAS, counted in the program itself."""

from contextlib import closing
from pathlib import Path

from counter import StackCounter
from proof import make


def test_the_vendor_rung_calls_the_blas_from_its_own_step(tmp_path: Path) -> None:
    with closing(StackCounter(tmp_path)) as counter:
        stack = counter.stack(make("mlp", "vendor", "infer"))
    assert stack.entry == "scipy_cblas_sgemm"
    assert not stack.python
    assert not stack.count("interpreter")
    assert stack.count("vendor") == 1
    # The step that walks its calls, and the call itself.
    assert stack.total <= 4
