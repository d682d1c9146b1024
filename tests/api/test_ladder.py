"""`tare.ladder`: objects of a program on several rungs, carried to fresh processes that nobody else can feed."""

import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import make_case, make_failure, make_record

import tare
from tare.api.ladder import MeasuredLadder, MeasuredRung, measure_step
from tare.records.record import Parity
from tare.system.scratch import scratch
from tare.workloads.own.pickled import PickledModel, PickledStep, code_digest, load_pickled, write_pickled


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.layer(x).relu()}


def mean_loss(output: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return (output["y"] - target).square().mean()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    return tmp_path


def make_ladder(**step_s: float) -> MeasuredLadder:
    records = {
        rung: make_record(make_case(rung=rung), (step, step * 1.01, step * 0.99)) for rung, step in step_s.items()
    }
    return MeasuredLadder({rung: MeasuredRung(rung, record) for rung, record in records.items()})


def test_the_best_rung_is_the_fastest_that_computes_the_same() -> None:
    ladder = make_ladder(eager=2e-3, compile=1e-3)
    assert ladder.best is ladder["compile"]
    wrong = make_record(make_case(rung="aot"), (1e-5, 1e-5, 1e-5), parity=Parity(status="different"))
    failed = make_record(make_case(rung="torchscript"), rounds=[], failure=make_failure())
    rungs = {**ladder.rungs, "aot": MeasuredRung("aot", wrong), "torchscript": MeasuredRung("torchscript", failed)}
    ladder = MeasuredLadder(rungs)
    assert ladder.best is ladder["compile"]
    assert ladder["torchscript"].gross is None
    assert ladder["torchscript"].failure
    with pytest.raises(tare.BadInput, match=r"unknown rung 'compil'.*did you mean 'compile'"):
        ladder["compil"]


def test_a_ladder_shows_itself_as_a_table() -> None:
    ladder = make_ladder(eager=2e-3, compile=1e-3)
    lines = str(ladder).splitlines()
    assert repr(ladder) == str(ladder)
    assert any(line.startswith("compile") and "2.0" in line for line in lines)
    assert "<td" in ladder._repr_html_()
    assert "| compile |" in ladder.to_markdown()


def test_rows_and_a_data_frame_hold_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = make_ladder(eager=2e-3, compile=1e-3)
    row = ladder.rows()[0]
    assert (row["rung"], row["gross"], row["parity"]) == ("eager", pytest.approx(2e-3), "same")
    assert row["gross_low"] < row["gross"] < row["gross_high"]

    frame = ladder.to_pandas()
    assert list(frame.index) == ["eager", "compile"]
    assert frame.loc["compile", "gross"] == pytest.approx(1e-3)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(tare.BadInput, match="pip install pandas"):
        ladder.to_pandas()


def test_ladders_are_compared_rung_by_rung() -> None:
    compared = tare.compare(make_ladder(eager=1e-3, aot=1e-3), make_ladder(eager=3e-3, compile=1e-3))
    assert {rung: each.verdict for rung, each in compared.items()} == {"eager": "slower"}
    with pytest.raises(tare.BadInput, match="no rung is in both"):
        tare.compare(make_ladder(aot=1e-3), make_ladder(eager=1e-3))


@pytest.mark.parametrize(
    ("model", "inputs", "line"),
    [
        (3, None, "a model is a torch.nn.Module"),
        ("resnet50", torch.zeros(1), "for the model 'resnet50' inputs is a text"),
    ],
)
@pytest.mark.usefixtures("own_home")
def test_bad_models_are_refused_in_one_line(model: Any, inputs: Any, line: str) -> None:
    with pytest.raises(tare.BadInput, match=line):
        tare.ladder(model, inputs)


@pytest.mark.usefixtures("own_home")
def test_what_cannot_be_pickled_is_refused_in_one_line() -> None:
    lock = threading.Lock()

    def step() -> None:
        lock.acquire()

    with pytest.raises(tare.BadInput, match=r"step cannot be carried to another process: TypeError: .*lock"):
        tare.ladder(step)


@pytest.mark.usefixtures("own_home")
def test_objects_travel_in_a_private_file_and_come_back_whole() -> None:
    model, x = Net(), torch.randn(4, 16)
    with scratch() as folder:
        source = write_pickled(model, x, mean_loss, folder)
        path = Path(source.location)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert source.name == "object:Net"
        definition = PickledModel(source)
        described = definition.describe()
        assert (described.batch, described.inputs, described.trains) == (4, "Nx16", True)
        assert described.digest == code_digest(model, mean_loss)
        assert torch.equal(definition.build()(x)["y"], model(x)["y"])
    assert not path.exists()


@pytest.mark.usefixtures("own_home")
def test_each_program_of_a_step_starts_with_the_state_that_was_given() -> None:
    weights = torch.zeros(3)

    def add() -> torch.Tensor:
        return weights.add_(1)

    with scratch() as folder:
        step = PickledStep(write_pickled(add, None, None, folder, whole_step=True))
        assert step.open().call().tolist() == step.open().call().tolist() == [1, 1, 1]
    assert weights.tolist() == [0, 0, 0]


def test_only_a_file_of_a_run_is_ever_unpickled(own_home: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {own_home / 'harmed'}",)

    refused = "was not written by this run: nothing else is unpickled"
    with scratch() as folder:
        written = Path(write_pickled(Harm(), None, None, folder, "harm").location)
        outside = own_home / written.name
        outside.write_bytes(written.read_bytes())
        outside.chmod(0o600)
        renamed = written.with_name("0" * 64 + ".pickle")
        renamed.write_bytes(written.read_bytes())
        renamed.chmod(0o600)
        link = folder / f"link-{written.name}"
        link.symlink_to(outside)
        for path in (outside, renamed, link, folder / "absent.pickle"):
            with pytest.raises(tare.BadInput, match=refused):
                load_pickled(path)
        written.chmod(0o644)
        with pytest.raises(tare.BadInput, match=refused):
            load_pickled(written)
    assert not (own_home / "harmed").exists()


def test_the_digest_follows_the_code_and_the_sizes_and_not_the_weights() -> None:
    def first() -> int:
        return helper() + 1

    def second() -> int:
        return helper() + 2

    def helper() -> int:
        return 0

    assert code_digest(Net()) == code_digest(Net())
    assert code_digest(Net(16)) != code_digest(Net(32))
    assert code_digest(first) == code_digest(first)
    assert code_digest(first) != code_digest(second)


@pytest.mark.full
@pytest.mark.usefixtures("own_home")
def test_a_model_is_measured_and_checked_in_fresh_processes() -> None:
    x = torch.randn(4, 16)
    ladder = tare.ladder(Net(), x, rungs=["eager", "torchscript"], quick=True)
    assert [rung.parity for rung in ladder] == ["same", "same"]
    assert ladder.best in list(ladder)
    # Another model of the same name in the same process.
    trained = tare.ladder(
        Net(8), ((torch.randn(4, 8),), torch.randn(4, 8)), loss=mean_loss, rungs=["eager"], quick=True
    )
    assert trained.records[0].case.mode == "train"
    assert trained.records[0].case.source != ladder.records[0].case.source


@pytest.mark.full
@pytest.mark.usefixtures("own_home")
def test_a_text_names_a_workload() -> None:
    ladder = tare.ladder("mlp", rungs="eager", quick=True)
    assert ladder["eager"].record.case.workload == "mlp"
    assert ladder["eager"].gross is not None


@pytest.mark.full
@pytest.mark.usefixtures("own_home")
def test_a_step_of_plain_python_is_measured_in_fresh_processes() -> None:
    measured = measure_step(lambda: sum(range(1000)), "plain", rounds=2, budget=0.4, parity=False)
    assert measured["eager"].failure is None
    assert len(measured["eager"].samples) == 2
