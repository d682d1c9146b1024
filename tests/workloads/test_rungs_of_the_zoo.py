"""A sample of the zoo on other rungs at smoke size, and proof that declared limits of workloads are real."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_thread import own_thread
from proof import check
from zoo import ZOO

from tare.cases.case import Case, Mode
from tare.rungs import get_rung
from tare.workloads import Workload, get_workload

pytestmark = pytest.mark.full
# Each compiles a training step for more than a minute.
SLOW = {(name, "compile/train") for name in ("moco", "opacus_cifar10", "pytorch_stargan")}
# One of every kind: convolutions, attention, recurrence, tables, graphs, a state-space model, GANs, kernels.
TRACED = (
    "squeezenet1_1", "timm_vision_transformer", "hf_Bert", "hf_T5", "llama_decode", "mamba2", "tts_angular",
    "dlrm", "basic_gnn_gcn", "pytorch_unet", "pyhpc_equation_of_state", "demucs",
)  # fmt: skip
COMPILED = ("nanogpt", "llama_decode", "dlrm", "phlippe_resnet", "pyhpc_equation_of_state")
TRAINED = {"torchscript": ("hf_Bert", "tts_angular", "dlrm"), "compile": ("dlrm",)}


def smoke(name: str, rung: str, mode: Mode = "infer", **fields: Any) -> Case:
    workload = get_workload(name)
    if mode == "train":
        # SGD: Adam would turn a gradient of mere rounding into a full step.
        fields["optimizer"] = "sgd"
    return Case(
        workload=name, rung=rung, mode=mode, batch=workload.smoke_batch, sizes=workload.smoke_sizes, **fields
    )


@pytest.mark.parametrize("name", TRACED)
def test_torchscript_infers_the_same(name: str, tmp_path: Path) -> None:
    assert check(smoke(name, "torchscript"), tmp_path).status == "same"


@pytest.mark.parametrize("name", TRAINED["torchscript"])
def test_torchscript_trains_the_same(name: str, tmp_path: Path) -> None:
    assert check(smoke(name, "torchscript", "train"), tmp_path).status == "same"


@pytest.mark.parametrize("name", COMPILED)
def test_compile_infers_the_same(name: str, tmp_path: Path) -> None:
    torch.compiler.reset()
    assert check(smoke(name, "compile"), tmp_path).status == "same"


@pytest.mark.parametrize("name", TRAINED["compile"])
def test_compile_trains_the_same(name: str, tmp_path: Path) -> None:
    torch.compiler.reset()
    assert check(smoke(name, "compile", "train"), tmp_path).status == "same"


# In a process of its own: a compiler or exporter that fails half-way may crash, or break the next one.
ATTEMPT = """
import sys
from pathlib import Path

from proof import check
from zoo import ZOO
from tare.cases.case import Case

try:
    parity = check(Case.parse(sys.argv[1]), Path(sys.argv[2]))
except Exception as error:
    print("fails", error)
else:
    print("same" if parity.status == "same" and (parity.error or 0) <= 0.1 else "differs", parity)
"""


def declared() -> list[tuple[Workload, str]]:
    """Limits that can be tried on a CPU. Other tests cover traces and workloads without a loss. `frame_chain`
    would run on other rungs, but without the Python frames that it measures."""
    return [
        (workload, what)
        for workload in ZOO.values()
        for what in workload.unsupported
        if not {"cuda", "torchscript"} & set(what.split("/"))
        and what != "train"
        and workload.name != "frame_chain"
    ]


LIMITS = [
    pytest.param(workload, what, marks=pytest.mark.slow if (workload.name, what) in SLOW else ())
    for workload, what in declared()
]


@pytest.mark.parametrize(("workload", "what"), LIMITS, ids=lambda value: getattr(value, "name", value))
def test_declared_limit_fails_or_differs(workload: Workload, what: str, tmp_path: Path) -> None:
    parts = set(what.split("/"))
    precision = next(iter(parts & {"bf16", "fp16"}), "fp32")
    rung = "aot:python" if "aot" in parts else "compile" if "compile" in parts else "eager"
    mode: Mode = "train" if "train" in parts else "infer"
    case = smoke(workload.name, rung, mode, precision=precision)
    if rung != "eager":
        command = [sys.executable, "-c", ATTEMPT, case.key, str(tmp_path)]
        support = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "support")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=550, env=support)
        crashed = done.returncode < 0
        expected = ("fails",) if rung == "aot:python" else ("fails", "differs")
        assert crashed or done.stdout.startswith(expected), (done.stdout, done.stderr[-2000:])
        return

    def attempt() -> bool:
        """Whether a result overflows."""
        program = get_rung(rung).prepare(workload, case)
        try:
            return not all(np.isfinite(values).all() for values in program.evidence().values())
        finally:
            program.close()

    with own_thread() as thread:
        attempted = thread.submit(attempt)
        if attempted.exception():
            return
    parity = check(case, tmp_path)
    # Eager is the same as itself. What overflows in it is undecided, and all that shows the limit.
    is_limited = parity.undecided > 0 if attempted.result() else (parity.error or 0) > 0.1
    assert parity.status != "same" or is_limited, parity


LOW = [n for n, w in ZOO.items() if not w.refusal({"bf16", "cpu", "infer"})]


@pytest.mark.parametrize("name", LOW)
def test_bfloat16_runs_unless_declared(name: str) -> None:
    from torch.utils import _pytree as pytree

    from tare.rungs.torch.feeds import move
    from tare.rungs.torch.numerics import PRECISIONS

    workload = get_workload(name)
    model = workload.build(workload.smoke_sizes).to(torch.bfloat16).eval()
    batch = move(
        workload.inputs(workload.smoke_batch, workload.smoke_sizes), "cpu", PRECISIONS["bf16"], "contiguous"
    )
    with torch.inference_mode():
        output = model(*batch.args)
    assert all(bool(torch.isfinite(x).all()) for x in pytree.tree_leaves(output) if isinstance(x, torch.Tensor))
