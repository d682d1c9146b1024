"""`tare.explain`: the breakdown, the findings and the regions of a callable."""

import time
from pathlib import Path

import pytest
import torch
from commandline import tare as run_tare

import tare


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> tare.StepExplanation:
    model, x = torch.nn.Linear(64, 64), torch.randn(16, 64)

    def train() -> torch.Tensor:
        with tare.stopwatch("data loading"):
            time.sleep(0.05)
        with tare.stopwatch("forward"):
            loss = model(x).sum()
        loss.backward()
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_HOME", str(tmp_path_factory.mktemp("home")))
        return tare.explain(train, budget=0.3, trace=tmp_path_factory.mktemp("kept") / "step.json.gz")


def test_the_regions_are_in_the_explanation(explained: tare.StepExplanation) -> None:
    assert [region.name for region in explained.regions] == ["data loading", "forward"]
    assert explained.regions[0].host / explained.regions[0].calls >= 50e6
    assert "data loading" in str(explained)


def test_the_shares_add_up_and_sleeping_is_python(explained: tare.StepExplanation) -> None:
    assert sum(explained.breakdown.values()) == pytest.approx(1)
    host = explained.explanation.host
    assert explained.breakdown["python"] == pytest.approx(host.outside / host.window, rel=0.01)
    # No operator runs while the step sleeps.
    assert host.outside >= explained.regions[0].host
    assert explained.explanation.waterfall.gross == round(explained.measurement.gross.median * 1e9)


def test_it_shows_itself_as_text_html_and_markdown(explained: tare.StepExplanation) -> None:
    assert repr(explained) == str(explained)
    assert "train" in str(explained).splitlines()[0]
    assert "<svg" in explained._repr_html_()
    assert "| data loading | 1 |" in explained.to_markdown()
    assert "Drawing" not in explained.to_markdown()


def test_the_modules_are_a_tree(explained: tare.StepExplanation) -> None:
    assert explained.modules is not None
    (linear,) = explained.modules.children
    assert linear.name.startswith("Linear_")
    assert linear.calls == explained.modules.calls
    assert explained.modules.total.host == explained.modules.own.host + linear.total.host


def test_the_trace_is_kept_where_it_was_asked_for(explained: tare.StepExplanation) -> None:
    assert Path(explained.explanation.trace).name == "step.json.gz"
    assert Path(explained.explanation.trace).exists()


@pytest.mark.full
def test_the_command_shows_the_regions_of_a_whole_step(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import torch, tare\n"
        "model, x = torch.nn.Linear(64, 64), torch.randn(8, 64)\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "def train_step():\n"
        "    with tare.stopwatch('whole pass'):\n"
        "        loss = model(x).square().mean()\n"
        "        loss.backward()\n"
        "    optimizer.step()\n"
        "    return loss\n"
    )
    explained = run_tare(tmp_path, "explain", f"{file}::train_step", "--quick", "--no-stacks")
    assert explained.returncode == 0, explained.stderr
    assert any(line.startswith("whole pass") for line in explained.stdout.splitlines())
