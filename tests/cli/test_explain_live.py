"""tare explain --live: steady steps of any script, recorded without editing it."""

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from commandline import Done, start_tare, tare, wait_until

# A step of a few milliseconds whatever the machine, which is steady because it sleeps.
TRAIN = """\
import os, subprocess, sys, time
assert not any("scratch" in path for path in sys.path), sys.path
import torch
net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))

def train_step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    time.sleep(0.02)

def recorded():
    return any(path.endswith("-stacks.json.gz") for path in os.listdir(os.environ["TARE_HOME"] + "/traces"))
"""
UNTIL_RECORDED = """
os.makedirs(os.environ["TARE_HOME"] + "/traces", exist_ok=True)
while not recorded():
    train_step()
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def live(home: Path, script: str, *options: str) -> Done:
    path = home / "train.py"
    path.write_text(script)
    return tare(home, "explain", "--live", *options, "--", sys.executable, str(path), **ONE_THREAD)


@pytest.mark.full
def test_a_script_is_recorded_and_goes_on_to_its_end(tmp_path: Path) -> None:
    end = UNTIL_RECORDED + "print(f'the end {torch.__spec__.loader.__class__.__name__}')\n"
    done = live(tmp_path, TRAIN + end, "--json", "--steps", "5")
    assert done.returncode == 0, done.stderr
    # What the script prints does not get into the document.
    assert "the end SourceFileLoader" in done.stderr
    (one,) = json.loads(done.stdout)["explanations"]
    assert one["title"] == "train.py"
    assert not one["waterfall"]["profiled"]
    # Gross is that of the steps without the profiler, of which each sleeps for 20 ms.
    assert one["waterfall"]["gross"] > 20e6
    names = {operator["name"]: operator["calls"] for operator in one["host"]["operators"]}
    assert names["aten::addmm"] == 2 * one["host"]["steps"]
    note = next(
        note for note in one["notes"] if note.startswith("recorded live: 5 steps, each to the end of SGD.step")
    )
    assert "which made a step" in note
    paths = sorted((tmp_path / "traces").iterdir())
    assert [path.name.endswith("-stacks.json.gz") for path in paths] == [True, False]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    # The kept trace is explained like any other.
    again = json.loads(tare(tmp_path, "explain", one["trace"], "--json").stdout)["explanations"][0]
    assert again["waterfall"]["gross"] == one["waterfall"]["gross"]
    assert note in again["notes"]


@pytest.mark.full
def test_a_script_without_an_optimizer_has_the_calls_of_its_model_as_steps(tmp_path: Path) -> None:
    script = TRAIN.replace("optimizer = ", "net = torch.compile(net, backend='eager')\n# ") + (
        "def train_step():\n    torch.nn.ReLU()(x)\n    net(x)\n    time.sleep(0.02)\n"
    )
    done = live(tmp_path, script + UNTIL_RECORDED, "--json", "--no-stacks", "--stop")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["explanations"]
    assert any("each to the end of the forward of Sequential" in note for note in one["notes"])
    assert "global hooks" not in done.stderr


@pytest.mark.full
def test_of_several_optimizers_the_one_that_steps_least_often_ends_a_step(tmp_path: Path) -> None:
    script = TRAIN + (
        "critic = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())\n"
        "inner = train_step\n"
        "def train_step():\n"
        "    for _ in range(3): critic.step()\n"
        "    inner()\n"
    )
    done = live(tmp_path, script + UNTIL_RECORDED, "--json", "--stop")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["explanations"]
    assert any("each to the end of SGD.step" in note for note in one["notes"])
    calls = {region["name"]: region["calls"] for region in one["regions"]}
    assert calls["Optimizer.step#Adam.step"] == 3 * calls["Optimizer.step#SGD.step"]


@pytest.mark.full
def test_only_the_process_that_trains_is_recorded_and_stop_ends_the_command(tmp_path: Path) -> None:
    inner = tmp_path / "inner.py"
    inner.write_text(TRAIN + "while True:\n    train_step()\n")
    done = live(
        tmp_path, f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, {str(inner)!r}]))", "--stop"
    )
    assert done.returncode == 0, done.stderr
    assert "gross" in done.stdout
    assert "ending the command" in done.stderr


@pytest.mark.full
def test_what_was_recorded_before_a_crash_is_explained(tmp_path: Path) -> None:
    done = live(tmp_path, TRAIN + UNTIL_RECORDED + "os._exit(3)\n", "--json", "--steps", "4")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["command_failed"] == "the command ended with exit status 3 after it was recorded"
    assert document["explanations"][0]["host"]["steps"] >= 3


@pytest.mark.full
def test_interrupted_within_the_recorded_steps_the_whole_ones_are_kept(tmp_path: Path) -> None:
    script = TRAIN + (
        "profiled = 0\n"
        "while True:\n"
        "    train_step()\n"
        "    profiled += torch.autograd._profiler_enabled()\n"
        "    if profiled == 60:\n"
        "        net(x); raise ValueError('planted')\n"
    )
    done = live(tmp_path, script, "--json", "--no-stacks", "--steps", "100")
    assert done.returncode == 1, done.stderr
    assert "ValueError: planted" in done.stderr
    document = json.loads(done.stdout)
    assert document["command_failed"] == "the command ended with exit status 1 after it was recorded"
    (note,) = [note for note in document["explanations"][0]["notes"] if note.startswith("recorded live")]
    recorded = int(note.split()[2])
    assert 50 <= recorded <= 60
    outliers = [
        int(note.split(": ")[1].split()[0]) for note in document["explanations"][0]["notes"] if "outliers" in note
    ]
    assert document["explanations"][0]["host"]["steps"] + sum(outliers) == recorded


@pytest.mark.full
def test_interrupted_before_anything_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import os, time\nopen('started', 'w')\ntime.sleep(60)\n")
    running = start_tare(tmp_path, "explain", "--live", "--", sys.executable, str(path), cwd=tmp_path)
    wait_until((tmp_path / "started").exists)
    os.kill(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors.endswith("tare: interrupted: train.py had no recorded step yet\n")


@pytest.mark.parametrize(
    ("script", "code", "why"),
    [
        ("print(1)", 2, "train.py was not recorded: no process of it imported torch"),
        ("import torch", 2, "train.py was not recorded: no steps were seen: a step ends where an optimizer"),
        pytest.param(
            *(
                "import torch; raise SystemExit(7)",
                1,
                "train.py ended with exit status 7 and was not recorded: no steps",
            ),
            marks=pytest.mark.full,
        ),
    ],
)
def test_why_nothing_was_recorded(tmp_path: Path, script: str, code: int, why: str) -> None:
    done = live(tmp_path, script)
    assert done.returncode == code, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_short_script_says_how_many_steps_it_had(tmp_path: Path) -> None:
    done = live(tmp_path, TRAIN + "train_step(); train_step()\n")
    assert done.returncode == 2
    assert "it ended after 2 steps, too few to get steady and be recorded" in done.stderr


def test_options_of_a_command_and_of_workloads_are_not_mixed(tmp_path: Path) -> None:
    for arguments, why in (
        (("--stop", "mlp"), "--stop is for a command: tare explain --live -- python train.py"),
        (("--live", "mlp"), "--live takes a command: tare explain --live -- python train.py"),
        (("--live", "--batch", "2", "--", "true"), "--batch is not for a command"),
        (("--live", "--", "no-such-program"), "the command 'no-such-program' is not on the PATH"),
        (("--live", "--", "true"), "true was not recorded: no Python that takes PYTHONPATH was started"),
    ):
        done = tare(tmp_path, "explain", *arguments)
        assert done.returncode == 2
        assert why in done.stderr
