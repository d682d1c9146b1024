"""tare explain --live on a GPU: gross without the profiler, the device's breakdown, the lines that launched; and
one operator of that trace alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tare.findings.context import Context
from tare.trace.read import read

pytestmark = pytest.mark.alone

SCRIPT = """\
import torch
net = torch.nn.Linear(2048, 2048).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(4096, 2048, device="cuda")

def train_step():
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    total = (x * 2
             + 1).sum()
    value = total.item()  # hidden sync
    optimizer.step()

while True:
    train_step()
"""


def test_a_training_script_is_recorded_with_its_device_and_its_lines(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "TARE_HOME": str(tmp_path)}
    asked = ("explain", "--live", "--stop", "--json", "--", sys.executable, str(script))
    done = subprocess.run(
        [sys.executable, "-m", "tare", *asked], env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["explanations"]
    assert one["breakdown"]["steps"]
    assert not one["waterfall"]["profiled"]
    segments = {segment["name"]: segment["ns"] for segment in one["waterfall"]["segments"]}
    assert sum(segments.values()) == one["waterfall"]["gross"]
    assert segments["kernels"] > 0
    line = SCRIPT.splitlines().index("    value = total.item()  # hidden sync") + 1
    places = [place["where"] for cause in one["places"]["causes"] for place in cause["places"]]
    assert any(where.startswith(f"train.py({line}): train_step") for where in places), places
    assert not any("train.py(6): train_step · aten::item" in where for where in places)
    stacks = read(Path(one["trace"].replace(".json.gz", "-stacks.json.gz")))
    context = Context(stacks)
    assert any(f"({line})" in context.locator.of_call(int(row)) for row in context.syncs)

    operator = tmp_path / "op.py"
    replayed = ("explain", one["trace"], "--replay", "aten::addmm", "-o", str(operator))
    done = subprocess.run(
        [sys.executable, "-m", "tare", *replayed], env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert 'DEVICE = "cuda"' in operator.read_text()
    ran = subprocess.run([sys.executable, str(operator)], capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr
    assert "aten::addmm alone" in ran.stdout
