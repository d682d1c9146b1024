"""Pairs of paths whose parts are known: what is smooth cancels, what flips stays."""

import numpy as np
import pytest

from tare.measure.parity import MOST_ROUNDINGS, MULTIPLE, cancellation, errors_of_pair, update_errors, widest

RNG = np.random.default_rng(5)
WANTED = RNG.standard_normal((8, 16))
MOVED = 0.01 * RNG.standard_normal((8, 16))
SIZE = float(np.linalg.norm(WANTED))


def of_pair(up: object, down: object, reach: float = 4.0) -> float:
    return errors_of_pair(
        {"gradient/w": WANTED}, {"gradient/w": np.asarray(up)}, {"gradient/w": np.asarray(down)}, reach
    )["gradient/w"]


def test_what_is_smooth_counts_as_one_rounding_however_far_the_pair_reaches() -> None:
    one = float(np.linalg.norm(MOVED)) / SIZE
    for reach in (1, 4, 100):
        assert of_pair(WANTED + reach * MOVED, WANTED - reach * MOVED, reach) == pytest.approx(one)


def test_a_single_number_counts_as_far_off_as_one_rounding_moves_it() -> None:
    up, down = {"loss/1": np.array(2.08)}, {"loss/1": np.array(1.92)}
    assert errors_of_pair({"loss/1": np.array(2.0)}, up, down, 4)["loss/1"] == pytest.approx(0.01)


def test_half_of_a_flip_stays_whichever_side_it_happens_on() -> None:
    jump = np.zeros_like(WANTED)
    jump[3] = 0.5
    wanted = float(np.linalg.norm(jump)) / SIZE / 2
    assert of_pair(WANTED + jump, WANTED) == pytest.approx(wanted)
    assert of_pair(WANTED, WANTED + jump) == pytest.approx(wanted)
    # Both took the other side than float64: eager itself does so as well, and all of it counts.
    assert of_pair(WANTED + jump, WANTED + jump) == pytest.approx(2 * wanted)


def test_a_flip_is_seen_beside_what_is_smooth_and_larger() -> None:
    jump = np.zeros_like(WANTED)
    jump[3, 3] = 0.1
    assert of_pair(WANTED + 100 * MOVED + jump, WANTED - 100 * MOVED, 1e9) == pytest.approx(0.05 / SIZE)


def test_numbers_of_half_the_width_are_averaged_without_rounding() -> None:
    wanted = {"loss/1": np.array(1.0)}
    up, down = np.array(1 + 2**-22, dtype=np.float32), np.array(1 - 2**-23, dtype=np.float32)
    found = errors_of_pair(wanted, {"loss/1": up}, {"loss/1": down}, 1e9)
    assert found["loss/1"] == pytest.approx(2**-24, rel=1e-6)


def test_equal_infinities_are_no_distance_and_others_an_infinite_one() -> None:
    masked = np.array([1.0, -np.inf])
    wanted = {"output/0": masked}
    assert errors_of_pair(wanted, {"output/0": masked}, {"output/0": masked}, 4)["output/0"] == 0
    broken = {"output/0": np.array([np.inf, -np.inf])}
    assert errors_of_pair(wanted, broken, {"output/0": masked}, 4)["output/0"] == float("inf")


def test_both_parts_of_complex_numbers_are_kept() -> None:
    wanted = {"output/0": WANTED + 1j * WANTED}
    up = {"output/0": wanted["output/0"] + 2j * MOVED}
    found = errors_of_pair(wanted, up, wanted, 1e9)["output/0"]
    assert found == pytest.approx(float(np.linalg.norm(MOVED)) / SIZE / np.sqrt(2))


def test_what_only_one_of_a_pair_has_is_infinitely_far_off() -> None:
    wanted = {"gradient/w": WANTED, "gradient/b": WANTED}
    found = errors_of_pair(wanted, wanted, {"gradient/w": WANTED}, 4)
    assert found == {"gradient/w": 0.0, "gradient/b": float("inf")}


def test_the_widest_of_several_paths_is_taken_tensor_by_tensor() -> None:
    assert widest([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 0.5}]) == {"a": 3.0, "b": 2.0}
    assert widest([]) == {}


def test_terms_that_cancel_may_be_summed_in_another_order() -> None:
    """The gradient of a bias before a batch norm: its terms are as large as others', their sum is not."""
    reference = {"gradient/weight": WANTED, "gradient/bias": 1e-15 * WANTED, "gradient/deep": WANTED}
    share = 2.0**-13
    moved = {name: reference[name] + share * WANTED for name in reference}
    moved["gradient/deep"] = WANTED + 500 * share * WANTED
    factors = cancellation(reference, moved, share)
    assert factors == {
        "gradient/weight": 1.0,
        "gradient/bias": MOST_ROUNDINGS / MULTIPLE,
        # A sensitive tensor is not one whose terms cancel: its tolerance stays.
        "gradient/deep": 1.0,
    }


def test_an_update_is_at_best_as_exact_as_its_weight() -> None:
    reference = {"gradient/w@0": WANTED, "update/w@0": 1e-9 * WANTED}
    errors = update_errors(reference, {}, {"w": 10 * SIZE}, 2.0**-23, adam=False)
    assert errors["update/w@0"] == pytest.approx(10 * 2.0**-23 / 1e-9)
    assert "gradient/w@0" not in errors


def test_adam_may_move_a_weight_either_way_where_its_gradient_is_rounding() -> None:
    gradient = np.full(100, 1.0)
    gradient[:4] = 1e-5
    reference = {"gradient/w": gradient, "update/w": -0.1 * np.sign(gradient)}
    certain = update_errors(reference, {"gradient/w": 1e-7}, {}, 2.0**-23, adam=True)
    assert certain["update/w"] == 0
    noisy = update_errors(reference, {"gradient/w": 1e-4}, {}, 2.0**-23, adam=True)
    # Four of a hundred weights move by twice the learning rate: the tolerance is four times this error.
    assert MULTIPLE * noisy["update/w"] == pytest.approx(2 * np.sqrt(4 / 100))
    assert update_errors(reference, {"gradient/w": 1e-4}, {}, 2.0**-23, adam=False)["update/w"] == 0
