"""tare explain FILE --replay NAME: one operator of a trace as a script of its own."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from commandline import tare
from traces import RECORDED, TraceBuilder

from tare.commands.operator_script import operator_script, replay_script
from tare.errors import BadInput
from tare.findings.diagnosis import diagnose
from tare.findings.finding import Finding
from tare.trace.operator_calls import find_call
from tare.trace.read import read
from tare.trace.windows import select_steps
from tare.worker.profiling import record

OPERATORS = (
    "mm", "convolution", "layer_norm", "embedding", "cat", "_softmax", "gelu", "_to_copy", "sum", "add", "arange",
    "index_select", "nll_loss_forward", "bernoulli_", "as_strided",
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "t.json.gz"
    embedding, indices = torch.nn.Embedding(50, 16), torch.randint(0, 50, (4, 7))
    convolution, image = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2), torch.randn(2, 3, 16, 16)
    a, b, labels = torch.randn(8, 16), torch.randn(4, 16), torch.randint(0, 16, (8,))
    functional, query = torch.nn.functional, torch.randn(4, 32, 8)

    def step() -> None:
        embedding(indices), convolution(image), a.mm(b.t())
        functional.layer_norm(a, (16,)), torch.cat([a, a * 2], 1), torch.softmax(a, -1)
        functional.gelu(a), a.to(torch.float16), a.sum(1, keepdim=True), a.add(1.5), torch.arange(10)
        functional.cross_entropy(a, labels), functional.dropout(a, 0.1), query.bmm(query.transpose(1, 2))

    with torch.no_grad():
        record(step, lambda: None, "cpu", str(path), 2, False, {})
    return path


def arguments_of(script: str) -> list[Any]:
    """The arguments that a script makes, without its measuring."""
    names: dict[str, Any] = {}
    exec(script.partition("@torch.no_grad()")[0].replace("import tare\n", ""), names)
    called = re.search(r"return torch\.ops\.([\w.]+)\(", script)
    assert called
    operator = torch.ops
    for part in called[1].split("."):
        operator = getattr(operator, part)
    operator(*names["arguments"], **names["options"])
    return list(names["arguments"])


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_runs_with_the_inputs_of_the_trace(recorded: Path, name: str) -> None:
    arguments = arguments_of(replay_script(str(recorded), f"{name}@1"))
    if name == "mm":
        assert [(tuple(x.shape), x.stride()) for x in arguments] == [((8, 16), (16, 1)), ((16, 4), (1, 16))]
    elif name == "embedding":
        assert arguments[1].dtype == torch.int64
        assert arguments[1].max() < 50
    elif name == "convolution":
        assert arguments[3:6] == [[2, 2], [1, 1], [1, 1]]
    elif name == "cat":
        assert [tuple(x.shape) for x in arguments[0]] == [(8, 16), (8, 16)]
        assert arguments[1] == 1
    elif name == "layer_norm":
        assert arguments[1:4] == [[16], None, None]
        assert arguments[4] == pytest.approx(1e-5)


@pytest.mark.full
def test_the_script_measures_the_operator(recorded: Path, tmp_path: Path) -> None:
    script = tmp_path / "op.py"
    done = tare(tmp_path, "explain", str(recorded), "--replay", "mm", "-o", str(script))
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"aten::mm alone: .* on cpu: gross \d", ran.stdout)


def test_a_remedy_stands_beside_the_operator() -> None:
    script = replay_script(str(RECORDED / "inefficient-fp32-matmul-tf32-off.json.gz"), "aten::mm@1")
    assert "allow_tf32 = True" in script
    assert 'DEVICE = "cuda"' in script


@pytest.mark.parametrize(
    ("rule", "name", "runs"),
    [
        ("attention-by-hand", "bmm", ["aten::bmm alone", "attention by hand", "scaled_dot_product_attention"]),
        ("channels-first", "conv2d", ["aten::conv2d alone", "in channels-last"]),
        ("tf32-off", "gelu", ["aten::gelu alone"]),
    ],
)
def test_remedies_run(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, rule: str, name: str, runs: list[str]
) -> None:
    trace = select_steps(read(recorded))
    finding = Finding(rule=rule, severity="low", summary="planted", remedy="planted")
    diagnosis = msgspec.structs.replace(diagnose(trace), findings=[finding])
    call = find_call(trace, f"{name}@1")
    shown: list[str] = []
    monkeypatch.setattr("tare.measure", lambda step, device: step())  # noqa: ARG005
    monkeypatch.setattr("builtins.print", shown.append)
    exec(operator_script(call, diagnosis, "cpu"), {})
    assert [text.split(": tensor")[0].split(": (")[0] for text in shown] == runs


def test_names_that_are_not_there(recorded: Path, tmp_path: Path) -> None:
    for name, why in (
        ("copy_", "3 different inputs, name one: aten::copy_@1 (scalar "),
        ("layernorm", "the steps of the trace call no operator 'layernorm'; near are aten::"),
        ("no_such_thing", "the steps of the trace call no operator 'no_such_thing'"),
        ("mm@2", "mm@2: aten::mm is called with 1 different inputs"),
        ("bernoulli_@0", "call no operator"),
    ):
        done = tare(tmp_path, "explain", str(recorded), "--replay", name)
        assert done.returncode == 2
        assert why in done.stderr
        assert "Traceback" not in done.stderr
    assert tare(tmp_path, "explain", "mlp", "--replay", "mm").returncode == 2
    assert tare(tmp_path, "explain", str(recorded), "-o", str(tmp_path / "x.py")).returncode == 2


FLOATS = {"Input Dims": [[2, 2], [2, 2]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ('aten::mm"""; import os', {}),
        ("aten::mm\nimport os", {}),
        ("os::system", {}),
        ("aten::__class__", {}),
        ("aten::mm", {"Input type": ["float", "float32); import os"]}),
        ("aten::mm", {"Input Dims": [[2, 2], [2, "__import__('os')"]]}),
        ("aten::mm", {"Input Dims": [[2, 2], [2, -1]]}),
        ("aten::mm", {"Input Dims": [[2, 2], [2, True]]}),
        ("aten::mm", {"Input Dims": [[2, 2]]}),
        ("aten::mm", {"Input Strides": [[2, 1], ["x", 1]]}),
        ("aten::mm", {"Input type": [1, 2]}),
        ("aten::softmax", {"Input Dims": [[2, 2], [], []], "Input type": ["float", "Scalar", ""],
                           "Concrete Inputs": ["", "__import__('os')", ""]}),
        ("aten::sum", {"Input Dims": [[2, 2], [], [], []], "Input type": ["float", "ScalarList", "Scalar", ""],
                       "Concrete Inputs": ["", "[0, os.getpid()]", "True", ""]}),
    ],
)  # fmt: skip
def test_nothing_of_a_hostile_trace_gets_into_a_script(tmp_path: Path, name: str, changed: dict[str, Any]) -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op(name, 10, 20, **FLOATS | changed)
    path = builder.write(tmp_path / "t.json")
    wanted = " ".join(name.split()) if "\n" in name else name
    with pytest.raises(BadInput):
        replay_script(str(path), wanted)


def test_numbers_beyond_those_of_python_are_code(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    inputs = {"Input Dims": [[2], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "-inf"]}
    builder.op("aten::fill_", 10, 20, **inputs)
    path = builder.write(tmp_path / "t.json")
    arguments = arguments_of(replay_script(str(path), "fill_"))
    assert arguments[1] == -float("inf")
    assert json.loads(path.read_text())["schemaVersion"] == 1
