"""Generated kernels on a GPU: every operator, random networks, and the workloads of the zoo that run on the CPU,
against float64. `pytest tests/gpu/test_generated_on_cuda.py -q -n 12` lists all that fail, with their reasons."""

from pathlib import Path

import pytest
from fusible_modules import MODULES, ROWS
from random_networks import NOT_LOWERED, random_workload
from small_modules import Parallel
from small_step import prove, prove_workload

from tare.cases.case import Case, Mode, Precision
from tare.cases.options import Options
from tare.errors import Unsupported
from tare.execute.executor import LocalExecutor
from tare.records.codec import read_records
from tare.rungs.native.build import executable
from tare.workloads import get_workload

OPTIONS = Options(rounds=1, budget=0.6, timeout=600)
PUBLISHED = Path(__file__).parents[2] / "results" / "zoo" / "vendor-smoke-infer-x86-64.json.gz"
# All of these run on the CPU at smoke size.
ZOO = sorted({record.case.workload for record in read_records(PUBLISHED)})
TRAINED = (
    "hf_Bert", "hf_GPT2", "hf_T5", "nanogpt", "timm_vision_transformer", "dlrm", "hf_VideoMAE", "BERT_pytorch",
    "timm_convnext",
)  # fmt: skip


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str, mode: Mode, tmp_path: Path) -> None:
    # In a branch beside nothing: its mean is the loss, and an update at a small rate would drown in rounding.
    program = executable("tare-vendor-cuda")
    branch = {name: MODULES[name]}
    parity = prove(
        lambda: Parallel(branch), ROWS, mode, "contiguous", tmp_path, program, device="cuda", learning_rate=1.0
    )
    assert parity.status == "same", parity
    assert parity.compared > 0


@pytest.mark.parametrize(
    ("precision", "mode"), [("tf32", "train"), ("amp-bf16", "train"), ("bf16", "train"), ("fp16", "infer")]
)
def test_modules_in_other_precisions(precision: Precision, mode: Mode, tmp_path: Path) -> None:
    # Volumes have no layout of images, which the reference tries too where it is not told otherwise. At larger
    # rates the modules diverge within the many steps that a GPU takes, in torch as well.
    parity = prove(
        lambda: Parallel(MODULES), ROWS, mode, "contiguous", tmp_path, executable("tare-vendor-cuda"), precision,
        device="cuda", learning_rate=0.3, layouts=("contiguous",),
    )  # fmt: skip
    assert parity.status == "same", parity


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("seed", range(300, 340))
def test_random_network(seed: int, mode: Mode, tmp_path: Path) -> None:
    program, workload = executable("tare-vendor-cuda"), random_workload(seed, dropout=False)
    try:
        parity = prove_workload(workload, mode, "contiguous", tmp_path, program, device="cuda")
    except Unsupported as refusal:
        if not NOT_LOWERED.search(str(refusal)):
            raise
        pytest.skip(str(refusal))
    assert parity.status == "same", parity


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "infer") for name in ZOO), *((name, "train") for name in TRAINED)]
)
def test_workload_of_the_zoo(name: str, mode: Mode, tmp_path: Path) -> None:
    program = executable("tare-vendor-cuda")
    parity = prove_workload(get_workload(name), mode, "contiguous", tmp_path, program, device="cuda", smoke=True)
    assert parity.status == "same", parity


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
@pytest.mark.parametrize("name", ["hf_Bert", "hf_GPT2", "timm_vision_transformer"])
def test_transformers_in_half_precision(name: str, precision: Precision, tmp_path: Path) -> None:
    program = executable("tare-vendor-cuda")
    parity = prove_workload(
        get_workload(name), "train", "contiguous", tmp_path, program, precision, device="cuda", smoke=True
    )
    assert parity.status == "same", parity


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("rung", ["vendor", "vendor:graph"])
def test_captured_and_call_by_call(executor: LocalExecutor, rung: str, mode: Mode) -> None:
    """Launches, products and copies of a step can be captured, and the second step begins where the first ends."""
    workload = get_workload("hf_GPT2")
    case = Case(
        workload=workload.name,
        rung=rung,
        mode=mode,
        device="cuda",
        batch=workload.smoke_batch,
        sizes=workload.smoke_sizes,
        optimizer=workload.optimizer if mode == "train" else None,  # type: ignore[arg-type]
    )
    done = executor.run_round(case, 0, OPTIONS, check=True)
    assert done.failure is None, done.failure
    assert done.parity is not None
    assert done.parity.status == "same", done.parity
