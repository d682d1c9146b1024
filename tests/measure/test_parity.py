"""Verdicts of parity on planted tensors whose true answer is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.measure.parity import (
    Reference,
    compare,
    errors,
    judge,
    load_reference,
    save_eager_errors,
    save_reference,
)
from tare.records.record import Parity

RNG = np.random.default_rng(11)
OUTPUT = RNG.standard_normal((4, 10))


def verdict(
    reference: dict[str, Any], candidate: dict[str, Any], precision: str = "fp32", **eager_errors: float
) -> Parity:
    named = {name.replace("__", "/"): error for name, error in eager_errors.items()}
    return compare(reference, candidate, precision, named, "the test")


def test_the_same_numbers_are_the_same() -> None:
    found = verdict({"output/0": OUTPUT}, {"output/0": OUTPUT.astype(np.float32)})
    assert (found.status, found.compared, found.undecided, found.reference) == ("same", 1, 0, "the test")
    assert found.error is not None
    assert 0 < found.error < 1e-7


def test_one_percent_is_different_and_is_measured() -> None:
    found = verdict({"output/0": OUTPUT}, {"output/0": 1.01 * OUTPUT})
    assert (found.status, found.worst, found.tolerance) == ("different", "output/0", 1e-4)
    assert found.error == pytest.approx(0.01)


def test_one_percent_is_within_what_bfloat16_rounds_away() -> None:
    assert verdict({"output/0": OUTPUT}, {"output/0": 1.009 * OUTPUT}, "bf16").status == "same"
    assert verdict({"output/0": OUTPUT}, {"output/0": 1.02 * OUTPUT}, "bf16").status == "different"


def test_one_wrong_element_among_many_is_found() -> None:
    wrong = OUTPUT.copy()
    wrong[2, 3] += 0.01
    assert verdict({"output/0": OUTPUT}, {"output/0": wrong}).status == "different"


def test_the_worst_of_many_tensors_decides() -> None:
    reference = {f"output/{i}": OUTPUT for i in range(5)}
    found = verdict(reference, reference | {"output/3": 1.001 * OUTPUT})
    assert (found.status, found.worst, found.compared) == ("different", "output/3", 5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_is_named_apart(bad: float) -> None:
    wrong = OUTPUT.copy()
    wrong[0, 0] = bad
    found = verdict({"loss/1": OUTPUT, "output/0": OUTPUT}, {"loss/1": 2 * OUTPUT, "output/0": wrong})
    assert (found.status, found.worst, found.error) == ("nan", "output/0", 1e300)


def test_a_nan_counts_even_where_eager_proves_nothing() -> None:
    wrong = np.full_like(OUTPUT, np.nan)
    assert verdict({"output/0": OUTPUT}, {"output/0": wrong}, "bf16", output__0=0.9).status == "nan"


@pytest.mark.parametrize("candidate", [{}, {"output/1": OUTPUT}, {"output/0": OUTPUT.T}, {"output/0": OUTPUT[:2]}])
@pytest.mark.parametrize("eager_errors", [0.0, 0.9])
def test_a_missing_or_misshapen_tensor_is_different(candidate: dict[str, Any], eager_errors: float) -> None:
    found = verdict({"output/0": OUTPUT}, candidate, output__0=eager_errors)
    assert (found.status, found.worst, found.error) == ("different", "output/0", 1e300)


def test_a_mask_of_minus_infinities_must_stand_in_the_same_places() -> None:
    masked = np.where(OUTPUT > 1, -np.inf, OUTPUT)
    moved = np.where(OUTPUT > 0, -np.inf, OUTPUT)
    assert verdict({"output/0": masked}, {"output/0": masked * (1 + 1e-6)}).status == "same"
    assert verdict({"output/0": masked}, {"output/0": OUTPUT}).status == "different"
    assert verdict({"output/0": masked}, {"output/0": moved}).status == "nan"


def test_a_gradient_that_is_only_rounding_is_judged_by_its_kind() -> None:
    """A bias before a batch norm has a gradient of zero: its rounding noise is nobody's mistake."""
    gradients = {"gradient/weight": OUTPUT, "gradient/bias": np.full(10, 1e-12)}
    noise = gradients | {"gradient/bias": np.full(10, -3e-12)}
    assert verdict(gradients, noise).status == "same"
    # ... but it is judged: the same noise on the scale of the weight's gradient is different.
    assert verdict(gradients, gradients | {"gradient/bias": np.full(10, 0.1)}).status == "different"


def test_a_small_output_is_not_excused_by_large_gradients() -> None:
    reference = {"gradient/weight": 1e6 * OUTPUT, "output/0": 1e-3 * OUTPUT}
    assert verdict(reference, reference | {"output/0": 1.1e-3 * OUTPUT}).status == "different"


def test_zeros_are_compared_too() -> None:
    zeros = np.zeros(5)
    assert errors({"output/0": zeros}, {"output/0": zeros}) == {"output/0": 0.0}
    assert errors({"output/0": zeros}, {"output/0": zeros + 1e-9}) == {"output/0": float("inf")}


def test_both_parts_of_complex_numbers_are_compared() -> None:
    values = OUTPUT + 1j * OUTPUT[::-1]
    assert verdict({"output/0": values}, {"output/0": values}).status == "same"
    assert verdict({"output/0": values}, {"output/0": values.conj()}).status == "different"


@pytest.mark.parametrize(
    ("eager_errors", "tolerance"),
    [
        (0.0, 1e-4),  # the precision's own
        (1e-5, 1e-4),  # four times eager's error, but never under the precision's own
        (0.01, 0.04),
        (0.2, 0.5),  # four times would be 0.8
        (0.34, 0.68),  # twice, where eager's own error is large
    ],
)
def test_the_tolerance_follows_eagers_own_error_up_to_a_cap(eager_errors: float, tolerance: float) -> None:
    below, above = (1 + 0.99 * tolerance) * OUTPUT, (1 + 1.01 * tolerance) * OUTPUT
    found = verdict({"output/0": OUTPUT}, {"output/0": below}, output__0=eager_errors)
    assert found.status == "same"
    assert found.tolerance == pytest.approx(tolerance)
    assert verdict({"output/0": OUTPUT}, {"output/0": above}, output__0=eager_errors).status == "different"


def test_tensors_in_which_eager_is_noise_are_counted_and_prove_nothing() -> None:
    reference = {"gradient/deep": OUTPUT, "loss/1": OUTPUT}
    found = verdict(reference, reference | {"gradient/deep": -OUTPUT}, gradient__deep=0.9)
    assert (found.status, found.compared, found.undecided) == ("same", 1, 1)


def test_nothing_is_proved_where_all_is_noise() -> None:
    found = verdict({"output/0": OUTPUT}, {"output/0": OUTPUT}, "bf16", output__0=0.36)
    assert (found.status, found.compared, found.undecided) == ("unchecked", 0, 1)
    assert "noise" in found.reason


def test_what_eager_leaves_undecided_is_still_different_far_beyond_its_noise() -> None:
    reference = {"gradient/deep": OUTPUT, "loss/1": OUTPUT}
    found = verdict(reference, reference | {"gradient/deep": 40 * OUTPUT}, gradient__deep=0.9)
    assert (found.status, found.worst) == ("different", "gradient/deep")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_reference_without_a_finite_value_proves_nothing(value: float) -> None:
    """A rung that multiplies by 1.01 gives the same infinities."""
    everywhere = np.full_like(OUTPUT, value)
    found = verdict({"output/0": everywhere}, {"output/0": 1.01 * everywhere})
    assert (found.status, found.compared, found.undecided) == ("unchecked", 0, 1)
    assert "no finite value" in found.reason
    # Beside an output that is finite it is not counted as compared, but has to be the same.
    both = {"output/0": everywhere, "output/1": OUTPUT}
    found = verdict(both, both)
    assert (found.status, found.compared, found.undecided) == ("same", 1, 1)
    assert verdict(both, both | {"output/0": OUTPUT}).status == "different"
    assert verdict(both, both | {"output/1": 1.01 * OUTPUT}).status == "different"


def test_a_reference_of_zeros_proves_nothing() -> None:
    zeros = np.zeros(5)
    found = verdict({"output/0": zeros}, {"output/0": zeros})
    assert (found.status, "zero everywhere" in found.reason) == ("unchecked", True)
    assert (
        verdict({"output/0": zeros, "output/1": OUTPUT}, {"output/0": zeros, "output/1": OUTPUT}).status == "same"
    )


def test_the_worst_of_several_samples_of_a_tensor_decides() -> None:
    reference = {"output/0@0": OUTPUT, "output/0@1": -OUTPUT, "gradient/block#2": OUTPUT}
    samples = {f"{name}#{k}": values for name, values in reference.items() for k in range(3)}
    found = verdict(reference, samples)
    assert (found.status, found.compared) == ("same", 3)
    wrong = verdict(reference, samples | {"output/0@1#1": -1.01 * OUTPUT})
    assert (wrong.status, wrong.worst) == ("different", "output/0@1")
    broken = verdict(reference, samples | {"output/0@0#2": np.full_like(OUTPUT, np.nan)})
    assert (broken.status, broken.worst) == ("nan", "output/0@0")
    missing = {name: values for name, values in samples.items() if not name.startswith("output/0@1")}
    assert verdict(reference, missing).worst == "output/0@1"
    misshapen = verdict(reference, samples | {"output/0@1#1": OUTPUT[:2]}, output__0=0.9)
    assert (misshapen.status, misshapen.worst) == ("different", "output/0@1")


def test_what_overflows_in_eager_too_is_nobodys_fault() -> None:
    """Adam in fp16: its epsilon is zero there, and eager divides by it."""
    reference = {"loss/1": OUTPUT, "loss/2": OUTPUT}
    overflown = reference | {"loss/2": np.full_like(OUTPUT, np.nan)}
    assert verdict(reference, overflown, "fp16", loss__2=1e300).status == "same"
    assert verdict(reference, overflown, "fp16", loss__2=0.9).status == "nan"


def test_a_reference_that_cannot_be_compared_with_says_why() -> None:
    reference = Reference({}, {}, "eager float64", unchecked="a step draws random numbers")
    found = judge({"output/0": OUTPUT}, reference, "fp32", lambda: None)
    assert (found.status, found.reason) == ("unchecked", "a step draws random numbers")


def test_an_empty_reference_proves_nothing() -> None:
    assert verdict({}, {"output/0": OUTPUT}).status == "unchecked"


def test_a_reference_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    arrays = {"output/0": OUTPUT, "a/b c": np.array(3.0), "empty": np.zeros((0, 2))}
    own = {"output/0": 1e-7, "a/b c": float("inf")}
    save_reference(tmp_path / "new", Reference(arrays, own, "eager float64 on cpu", without_dropout=True))
    loaded = load_reference(tmp_path / "new")
    assert loaded is not None
    assert list(loaded.arrays) == list(arrays)
    assert all(np.array_equal(loaded.arrays[name], arrays[name]) for name in arrays)
    assert loaded.eager_errors == {"output/0": 1e-7, "a/b c": 1e300}
    assert loaded.described == "eager float64 on cpu"
    assert not loaded.widened
    assert loaded.without_dropout
    save_eager_errors(tmp_path / "new", loaded, {"output/0": 1e-3, "a/b c": 0.0})
    wider = load_reference(tmp_path / "new")
    assert wider is not None
    assert wider.widened
    assert wider.eager_errors == {"output/0": 1e-3, "a/b c": 0.0}
    assert wider.described == loaded.described
    assert wider.without_dropout
    assert np.array_equal(wider.arrays["output/0"], OUTPUT)


def test_a_half_written_reference_is_none(tmp_path: Path) -> None:
    assert load_reference(tmp_path / "absent") is None
    save_reference(tmp_path, Reference({"output/0": OUTPUT}, {}, "x"))
    (tmp_path / "reference.json").unlink()
    assert load_reference(tmp_path) is None


class Trap:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (pytest.fail, ("an array was unpickled",))


def test_objects_are_never_pickled_nor_unpickled(tmp_path: Path) -> None:
    objects = np.array([Trap()], dtype=object)
    with pytest.raises(ValueError, match=r"[Oo]bject arrays"):
        save_reference(tmp_path / "a", Reference({"output/0": objects}, {}, "x"))
    assert load_reference(tmp_path / "a") is None
    save_reference(tmp_path / "b", Reference({"output/0": OUTPUT}, {}, "x"))
    np.save(tmp_path / "b" / "0.npy", objects, allow_pickle=True)
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        load_reference(tmp_path / "b")
