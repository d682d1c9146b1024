"""Rounds of workloads that draw random numbers: dropout is timed, and off where parity is judged."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import make_case

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import WITHOUT_DROPOUT, LocalExecutor
from tare.execute.launch import make_launcher
from tare.execute.parallel import PendingRound
from tare.protocol.jobs import Job, RoundJob

OPTIONS = Options(rounds=1, budget=0.3)


class Listening(LocalExecutor):
    """Keeps the jobs that its workers got."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(make_launcher("fork"), scratch)
        self.jobs: list[Job] = []

    def _run(self, job: Job, *more: object, **named: object):  # type: ignore[no-untyped-def]
        self.jobs.append(job)
        return super()._run(job, *more, **named)  # type: ignore[arg-type]

    def rounds(self) -> list[RoundJob]:
        return [job for job in self.jobs if isinstance(job, RoundJob)]


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("TARE_PLUGINS", "planted_random")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
        made = Listening(tmp_path_factory.mktemp("scratch"))
        yield made
        made.close()


@pytest.fixture(autouse=True)
def _forget(executor: Listening) -> None:
    executor.jobs.clear()


def case_of(workload: str, rung: str = "eager", mode: str = "train") -> Case:
    optimizer = "sgd" if mode == "train" else None
    return make_case(workload=workload, rung=rung, mode=mode, batch=4, sizes={}, optimizer=optimizer)


@pytest.mark.parametrize(
    "rung",
    [
        "eager",
        *(pytest.param(rung, marks=pytest.mark.full) for rung in ("torchscript", "compile", "libtorch:script")),
    ],
)
def test_dropout_is_timed_and_off_where_parity_is_judged(executor: Listening, rung: str) -> None:
    round_ = executor.run_round(case_of("planted_dropout", rung), 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    timed, judged = executor.rounds()
    assert (timed.dropout, timed.reference, timed.profile) == (True, None, True)
    assert (judged.dropout, judged.profile) == (False, False)
    # An executable shares the engines that cuDNN was searched for, by their shapes.
    assert timed.cache is None or timed.stage or timed.cache != judged.cache
    assert round_.parity is not None
    assert (round_.parity.status, round_.parity.reason) == ("same", ""), round_.parity
    assert round_.parity.reference == "eager float64 on cpu with dropout off"
    assert WITHOUT_DROPOUT in round_.notes
    assert round_.net is not None


@pytest.mark.full
def test_inference_has_no_dropout_and_needs_one_round(executor: Listening) -> None:
    round_ = executor.run_round(case_of("planted_dropout", mode="infer"), 0, OPTIONS, check=True)
    assert [job.dropout for job in executor.rounds()] == [True]
    assert round_.parity is not None
    assert round_.parity.status == "same"
    assert WITHOUT_DROPOUT not in round_.notes


def test_a_case_with_dropout_is_not_judged_at_the_gate(executor: Listening) -> None:
    case = PendingRound(case_of("planted_dropout"), check=True).case
    executor.run_once(executor.reference_job(case, OPTIONS), OPTIONS)
    assert executor.gated_job(case, 0, OPTIONS, check=True) is None
    assert executor.gated_job(case, 1, OPTIONS, check=False) is not None


@pytest.mark.full
@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        ("planted_sampling", "a step draws random numbers, with dropout off as well: two runs in float64 differ"),
        ("planted_reseeding", "two builds of the model have different weights (weight)"),
    ],
)
def test_other_randomness_is_unchecked_with_its_reason(executor: Listening, workload: str, reason: str) -> None:
    round_ = executor.run_round(case_of(workload, mode="infer"), 0, OPTIONS, check=True)
    assert round_.failure is None
    assert round_.parity is not None
    assert round_.parity.status == "unchecked"
    assert round_.parity.reason.startswith(reason)
