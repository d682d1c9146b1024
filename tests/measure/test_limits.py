"""The limits that go with a reference elsewhere are those by which `compare` decides here."""

import numpy as np
import pytest

from tare.measure.parity import Reference, compare, errors, limits

RANDOM = np.random.default_rng(0)
TENSORS = {
    "gradient/a": RANDOM.normal(size=50),
    "gradient/b": RANDOM.normal(size=(4, 5)),
    "loss/1@0": np.array(2.0),
}


@pytest.mark.parametrize("own", [0.0, 1e-3, 0.2, 0.34, 0.36, 5.0, 1e4])
@pytest.mark.parametrize("share", [0.9, 1.1])
def test_a_tensor_at_its_limit(own: float, share: float) -> None:
    """Eager's own error decides how far others may be off; a noisy tensor decides nothing until it is gross."""
    reference = Reference(dict(TENSORS), {"gradient/a": own}, "float64")
    limit, floor = limits(reference, "fp32")["gradient/a"]
    if np.isinf(limit):
        assert own == 1e4
        limit = 1e9
        share = 0.5
    wanted = TENSORS["gradient/a"]
    direction = RANDOM.normal(size=wanted.shape)
    size = max(float(np.linalg.norm(wanted)), floor)
    candidate = {**TENSORS, "gradient/a": wanted + direction * (share * limit * size / np.linalg.norm(direction))}
    assert errors(TENSORS, candidate)["gradient/a"] == pytest.approx(share * limit)
    verdict = compare(TENSORS, candidate, "fp32", reference.eager_errors, "float64")
    assert verdict.status == ("same" if share < 1 else "different")


def test_a_tensor_without_finite_values_decides_only_what_is_gross() -> None:
    reference = Reference({**TENSORS, "output/mask": np.full(3, -np.inf)}, {}, "float64")
    assert limits(reference, "fp32")["output/mask"] == (30.0, 0.0)
    assert limits(reference, "fp32")["loss/1@0"][0] == 1e-4
