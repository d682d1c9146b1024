"""Networks of the zoo as projects: built and run from the folder alone, against float64."""

from pathlib import Path

import pytest
from emitted import build, emit, run

from tare.cases.case import Mode

pytestmark = pytest.mark.full

SMALL = {
    "resnet50": {"resolution": 64, "classes": 10},
    "lstm": {"hidden": 24, "input": 16, "layers": 2, "steps": 6},
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("resnet50", "infer"),
        ("resnet50", "train"),
        ("lstm", "infer"),
        ("lstm", "train"),
        ("hf_Bert", "infer"),
        ("hf_Bert", "train"),
    ],
)
def test_the_project_computes_the_reference(name: str, mode: Mode, tmp_path: Path) -> None:
    widened = name == "resnet50" and mode == "train"
    emitted = emit(name, mode, tmp_path, batch=2, sizes=SMALL.get(name), widened=widened)
    done = run(build(emitted.folder), "--check", "--threads", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " tensors are the same as the reference" in done.stdout
    modules = {layer.module for layer in emitted.layers}
    wanted = {"resnet50": "layer1.0.conv1", "lstm": "", "hf_Bert": "bert.encoder.layer.0.attention.self"}[name]
    assert any(wanted in module for module in modules), modules
