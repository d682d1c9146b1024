"""The call stack from the vendor rung's step to the BLAS, counted in the process itself."""

from contextlib import closing
from pathlib import Path

import pytest
from counter import StackCounter
from proof import make


@pytest.mark.full
def test_step_calls_the_blas_directly(tmp_path: Path) -> None:
    with closing(StackCounter(tmp_path)) as counter:
        stack = counter.stack(make("mlp", "vendor", "infer"))
    assert stack.entry == "scipy_cblas_sgemm"
    assert not stack.python
    assert not stack.count("interpreter")
    assert stack.count("vendor") == 1
    # The loop over the calls, and the call itself.
    assert stack.total <= 4
