"""Preparing ahead: what is prepared how, rounds that find it warm, an interruption that leaves nobody behind."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from builders import make_failure
from launching import planted_launcher
from proof import make

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute import warm_caches as warming
from tare.execute.concurrent import Errand
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.execute.supervise import Ending
from tare.execute.warm_caches import portions, warm
from tare.protocol.jobs import ReferenceJob, StageJob, WarmJob
from tare.protocol.messages import Done, Failed

OPTIONS = Options(rounds=1, budget=0.3, parity=False, warm=2)
CHECKED = msgspec.structs.replace(OPTIONS, parity=True)
HANGS = Case(workload="planted_hang", rung="compile", batch=4)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """One server for all: to start it takes longer than what most tests do with it, and it knows of no case."""
    with planted_launcher(tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def executor(launcher: Launcher, tmp_path: Path) -> LocalExecutor:
    return LocalExecutor(launcher, tmp_path / "scratch")


@pytest.mark.parametrize(
    ("rung", "job"),
    [
        ("eager", None),
        ("torchscript", None),
        ("compile", WarmJob),
        ("compile:max-autotune", None),
        ("aot:python", WarmJob),
        ("aot", StageJob),
        ("libtorch:script", StageJob),
    ],
)
def test_what_a_rung_can_have_done_ahead(executor: LocalExecutor, rung: str, job: type | None) -> None:
    case = make("mlp", rung, "infer")
    assert [type(one) for one in executor.preparations(case, OPTIONS)] == [job] * (job is not None)
    *_, reference = executor.preparations(case, CHECKED)
    assert isinstance(reference, ReferenceJob)
    assert reference.beside


def test_a_long_plan_is_prepared_in_portions_that_keep_ladders_whole() -> None:
    rungs = ("eager", "compile")
    cases = [make("mlp", rung, "infer", batch=batch) for rung in rungs for batch in range(1, 6)]
    assert portions(cases, 0) == [cases]
    found = portions(cases, 1)
    assert [[(case.batch, case.rung) for case in portion] for portion in found] == [
        [(batch, rung) for batch in batches for rung in rungs] for batches in ((1, 2), (3, 4), (5,))
    ]
    assert portions([], 2) == []


def test_what_was_prepared_ahead_is_warm_in_the_first_round(executor: LocalExecutor) -> None:
    case = make("mlp", "compile", "infer", threads=1)
    said: list[str] = []
    assert warm([case, make("mlp", "eager", "infer")], executor, OPTIONS, said.append) == 1
    assert said == ["preparing ahead: 0 of 1", "preparing ahead: 1 of 1"]
    done = executor.run_round(case, 0, OPTIONS, check=False)
    assert done.failure is None
    assert done.cache == "warm"


def test_a_reference_is_made_ahead_once_for_a_ladder(executor: LocalExecutor) -> None:
    rungs = [make("mlp", rung, "infer", threads=1) for rung in ("eager", "torchscript")]
    assert warm(rungs, executor, CHECKED) == 1
    stages: list[str] = []
    executor._on_stage = stages.append
    done = executor.run_round(rungs[1], 0, CHECKED, check=True)
    assert done.parity is not None
    assert done.parity.status == "same"
    assert "reference" not in stages
    assert warm(rungs, executor, CHECKED) == 0


def test_a_reference_that_fails_ahead_is_left_to_its_round(executor: LocalExecutor) -> None:
    case = Case(workload="planted_raise", rung="eager", batch=4)
    assert warm([case], executor, CHECKED) == 0
    assert executor.preparations(case, CHECKED) != []


def test_cases_that_read_the_same_files_are_staged_once(executor: LocalExecutor) -> None:
    plain, captured = (make("mlp", rung, "infer", device="cuda") for rung in ("vendor", "vendor:graph"))
    assert executor.preparations(plain, OPTIONS) == executor.preparations(captured, OPTIONS) != []
    assert executor.preparations(plain, OPTIONS) != executor.preparations(
        make("mlp", "vendor", "infer", device="cuda", batch=5), OPTIONS
    )
    said: list[str] = []
    assert warm([plain, captured], executor, OPTIONS, said.append) == 1
    assert said == ["preparing ahead: 0 of 1", "preparing ahead: 1 of 1"]


def test_what_fails_ahead_is_left_to_its_round(executor: LocalExecutor) -> None:
    case = Case(workload="planted_raise", rung="compile", batch=4)
    assert warm([case], executor, OPTIONS) == 0
    done = executor.run_round(case, 0, OPTIONS, check=False)
    assert done.failure is not None


def test_what_takes_too_long_ahead_is_not_waited_for_again(executor: LocalExecutor) -> None:
    hurried = msgspec.structs.replace(OPTIONS, timeout=4)
    assert warm([HANGS], executor, hurried) == 0
    stages: list[str] = []
    executor._on_stage = stages.append
    done = executor.run_round(HANGS, 0, hurried, check=False)
    assert done.failure is not None
    assert done.failure.cause == "timeout"
    assert done.failure.message.startswith("stopped after 4 s, prepared ahead beside others (--warm 2;")
    assert stages == [], "no process was started for it"


def test_a_reference_that_takes_too_long_ahead_is_not_waited_for_again(executor: LocalExecutor) -> None:
    hurried = msgspec.structs.replace(OPTIONS, timeout=4, parity=True)
    case = msgspec.structs.replace(HANGS, rung="eager")
    assert warm([case], executor, hurried) == 0
    failure = executor._need_reference(case, hurried)
    assert failure is not None
    assert "prepared ahead" in failure.message


def test_what_has_no_memory_beside_others_is_prepared_alone(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    big, small = make("mlp", "compile", "infer"), make("mnist_cnn", "compile", "infer")
    seen: list[tuple[int, list[str]]] = []

    def crowd(
        errands: Sequence[Errand], _: Options, at_once: int, ended: Callable[[int, Ending], None], *__: Any
    ) -> None:
        jobs = [one.job for one in errands if isinstance(one.job, WarmJob | ReferenceJob)]
        seen.append((at_once, [f"{type(job).__name__} {job.case.workload}" for job in jobs]))
        for at, job in enumerate(jobs):
            without = job.case.workload == big.workload and at_once > 1
            said = Failed(failure=make_failure(cause="device-oom", message="CUDA out of memory"))
            ended(at, Ending(256, None, [said], "", 1.0, 0) if without else Ending(0, None, [Done()], "", 1.0, 0))

    monkeypatch.setattr(warming, "together", crowd)
    said: list[str] = []
    assert warm([big, small], executor, CHECKED, said.append) == 3
    both = ["WarmJob mlp", "WarmJob mnist_cnn", "ReferenceJob mlp", "ReferenceJob mnist_cnn"]
    assert seen == [(2, both), (1, ["WarmJob mlp"])], "a reference is left to its round, which has all the room"
    assert said[-1] == "preparing ahead: 4 of 4"


def test_what_has_no_memory_alone_either_is_left_to_its_round(executor: LocalExecutor) -> None:
    said: list[str] = []
    case = Case(workload="planted_device_memory", rung="compile", batch=4)
    assert warm([case], executor, OPTIONS, said.append) == 0
    assert said == ["preparing ahead: 0 of 1", "preparing ahead: 1 of 1"]


def test_what_its_own_limit_stops_is_not_tried_twice(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no more memory alone. Where the machine's ran out, it may have."""
    seen: list[int] = []

    def stop(limit: int | None) -> Callable[..., None]:
        def run(_: Any, __: Any, at_once: int, ended: Callable[[int, Ending], None], *___: Any) -> None:
            seen.append(at_once)
            ended(0, Ending(9, "memory", [], "", 1.0, 0, memory_limit=limit))

        return run

    for limit in (2**30, None):
        monkeypatch.setattr(warming, "together", stop(limit))
        assert warm([make("mlp", "compile", "infer")], executor, OPTIONS) == 0
    assert seen == [2, 2, 1]


def test_an_interruption_ends_what_is_being_prepared(executor: LocalExecutor) -> None:
    def interrupt(said: str) -> None:
        if said.startswith("preparing ahead: 1 "):
            raise KeyboardInterrupt

    quick = Case(workload="planted_raise", rung="compile", batch=4)
    before = psutil.Process().children()
    with pytest.raises(KeyboardInterrupt):
        warm([HANGS, quick], executor, OPTIONS, interrupt)
    workers = [one for one in psutil.Process().children() if one not in before]
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
