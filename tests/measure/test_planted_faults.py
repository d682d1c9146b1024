"""The catalogue of planted faults, and correct programs on random networks: what parity calls different."""

import pytest
from planted_faults import FAULTS, WORKLOADS
from random_networks import named_workloads, random_workload
from verdicts import case_of, judging

from benchmarks.parity import PRECISIONS, judge_faults, judge_networks, missed
from tare.workloads.base import Workload

QUICK = ["missing bias of a linear layer", "output times 1.01", "lost gradient", "half the learning rate"]


def test_the_catalogue_is_long_enough() -> None:
    assert len(FAULTS) >= 30
    assert set(QUICK) <= set(FAULTS)


def test_a_handful_of_faults_is_caught_and_eager_is_not() -> None:
    table = judge_faults("cpu", ("fp32",), QUICK)
    assert set(table) == set(QUICK)
    assert missed(table) == []
    # In float32 each is larger than rounding in every mode.
    assert all(row["exceeds rounding"] for verdicts in table.values() for row in verdicts.values())
    workload = WORKLOADS["faulty_image"]
    with judging(workload, case_of(workload, "train", "fp32")) as judge:
        assert judge.judge(judge.eager).status == "same"


@pytest.mark.full
@pytest.mark.parametrize("precision", PRECISIONS["cpu"])
def test_every_fault_larger_than_rounding_is_caught(precision: str) -> None:
    table = judge_faults("cpu", (precision,))
    assert missed(table) == []
    # Most are larger than rounding even in half precision; not GELU by tanh, or 1.001 times a result.
    larger = sum(any(row["exceeds rounding"] for row in verdicts.values()) for verdicts in table.values())
    assert larger >= (50 if precision == "fp32" else 35), larger


def refused(workloads: list[Workload]) -> list[str]:
    """What parity calls different, of correct programs that round otherwise."""
    judged = judge_networks(iter(workloads), "cpu", deadline=float("inf"))
    assert judged["networks"] == len(workloads)
    problems: list[str] = judged["called different"]
    return problems


@pytest.mark.parametrize(
    "name",
    ["saturating_cnn", *(pytest.param(n, marks=pytest.mark.full) for n in ("narrow_vgg_bn", "squeezenet1_1"))],
)
def test_eager_is_the_same_where_it_was_once_called_different(name: str) -> None:
    workload = next((w for w in named_workloads(large=False) if w.name == name), None)
    if workload is None:
        pytest.skip("needs torchvision")
    with judging(workload, case_of(workload, "train", "fp32")) as judge:
        assert judge.reference.without_dropout == (name != "saturating_cnn")
        assert judge.judge(judge.eager).status == "same"
        channels_last = judge.judge(lambda: judge.eager(layout="channels-last"))
        assert channels_last.status == "same", channels_last


@pytest.mark.parametrize(("seed", "precision"), [(33, "fp32"), (72, "amp-bf16"), (72, "fp16")])
def test_sums_in_another_order_are_the_same_where_terms_cancel_or_underflow(seed: int, precision: str) -> None:
    """A bias before a batch norm, whose gradient is rounding alone, and larger when summed in channels-last;
    gradients in fp16 that underflow."""
    workload = random_workload(seed)
    with judging(workload, case_of(workload, "train", precision)) as judge:
        assert judge.judge(lambda: judge.eager(layout="channels-last")).status == "same"


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_networks_are_the_same(first: int) -> None:
    assert refused([random_workload(seed) for seed in range(first, first + 10)]) == []
