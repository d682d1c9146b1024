"""Kernels that are generated for a GPU, run on a CPU by tests/support/host_cuda, and compared with float64: every
operator forward and backward, random networks, some of the zoo. nvcc compiles the same kernels."""

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fusible_modules import HALF, MODULES, ROWS
from host_program import compile_for_the_host, host_program
from random_networks import NOT_LOWERED, random_workload
from small_modules import Parallel
from small_step import prove, prove_workload

from tare.cases.case import Mode, Precision
from tare.errors import Unsupported
from tare.rungs.native import toolchain
from tare.rungs.vendor.fusion import build
from tare.rungs.vendor.fusion.emit import emit_step
from tare.rungs.vendor.fusion.trace import trace
from tare.rungs.vendor.lowering.capture import export
from tare.rungs.vendor.lowering.plan import ExecutionPlan
from tare.workloads import get_workload


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return host_program(tmp_path_factory.mktemp("host_cuda"))


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_for_the_host(monkeypatch)


@pytest.mark.full
@pytest.mark.usefixtures("on_host")
def test_all_modules_train(tmp_path: Path, program: Path) -> None:
    parity = prove(
        lambda: Parallel(MODULES),
        ROWS,
        "train",
        "contiguous",
        tmp_path,
        program,
        learning_rate=5.0,
        kernels="cuda",
    )
    assert parity.status == "same", parity
    assert parity.compared > len(MODULES)
    assert parity.undecided == 0, parity


@pytest.mark.full
@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize(("precision", "mode"), [("amp-bf16", "train"), ("bf16", "train"), ("fp16", "infer")])
def test_half_precisions(precision: Precision, mode: Mode, tmp_path: Path, program: Path) -> None:
    chosen = {name: MODULES[name] for name in HALF}
    parity = prove(
        lambda: Parallel(chosen), ROWS, mode, "contiguous", tmp_path, program, precision, learning_rate=5.0,
        kernels="cuda", layouts=("contiguous",),
    )  # fmt: skip
    assert parity.status == "same", parity
    assert parity.compared >= len(chosen)


@pytest.mark.full
@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_random_networks(mode: Mode, tmp_path: Path, program: Path) -> None:
    """Their sizes are odd: rows and columns that no block, warp or vector divides."""
    verdicts: Counter[str] = Counter()
    for seed in range(200, 208):
        folder = tmp_path / str(seed)
        folder.mkdir()
        workload = random_workload(seed, dropout=False)
        verdict: str
        try:
            verdict = prove_workload(workload, mode, "contiguous", folder, program, kernels="cuda").status
        except Unsupported as refusal:
            verdict = "refused" if NOT_LOWERED.search(str(refusal)) else str(refusal)
        assert verdict in ("same", "refused"), (seed, verdict)
        verdicts[verdict] += 1
    assert verdicts["same"] >= 4, verdicts


@pytest.mark.full
@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize(("name", "mode"), [("hf_GPT2", "train"), ("llama_decode", "infer"), ("dlrm", "train")])
def test_networks_of_the_zoo(name: str, mode: Mode, tmp_path: Path, program: Path) -> None:
    parity = prove_workload(get_workload(name), mode, "contiguous", tmp_path, program, smoke=True, kernels="cuda")
    assert parity.status == "same", parity


class Mapped(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def generated(function: Callable[[Any], Any], *shape: int) -> ExecutionPlan:
    """The plan of a function for a GPU."""
    x, plan = torch.empty(*shape), ExecutionPlan("f32", channels_last=False, device="cuda")
    module = Mapped(function)
    emit_step(plan, trace(export(module, (x,)), module, (x,), False), (x,))
    return plan


def launch(plan: ExecutionPlan) -> tuple[int, list[int]]:
    (attributes,) = [op.attributes for op in plan.ops if op.kind == "fused"]
    return attributes["blocks"], attributes["block"]


# The sizes of a row and the threads that share it: lanes of a warp, or a block.
SHARED = {(4096, 8): [2, 128], (4096, 768): [32, 8], (4096, 1000): [32, 8], (64, 50257): [512, 1], (1, 3): [4, 64]}


@pytest.mark.parametrize(("shape", "block"), SHARED.items())
def test_rows_get_as_many_threads_as_they_have_work_for(shape: tuple[int, int], block: list[int]) -> None:
    plan = generated(lambda x: x.softmax(-1), *shape)
    blocks, threads = launch(plan)
    assert threads == block
    assert blocks == -(-shape[0] // threads[1])


def test_neighbours_are_loaded_together_where_their_place_allows_it() -> None:
    assert "load_pack<4>" in generated(lambda x: x + 1, 6, 8).kernels
    assert "load_pack<2>" in generated(lambda x: x + 1, 5, 6).kernels
    # An odd number; a part that begins in the middle of a pack; rows that are columns in memory.
    for plan in (
        generated(lambda x: x + 1, 3, 7),
        generated(lambda x: x[:, 1:5] + 1, 6, 8),
        generated(lambda x: x.t() + 1, 8, 12),
    ):
        assert "load_pack" not in plan.kernels


def test_columns_are_summed_by_threads_that_read_neighbours() -> None:
    plan = generated(lambda x: x.sum(0), 512, 96)
    assert launch(plan) == (3, [32, 16])
    assert "over_columns<16>" in plan.kernels


def test_large_tensors_have_places_of_64_bits() -> None:
    assert "const int64_t row" in generated(lambda x: x + 1, 1 << 16, 1 << 16).kernels
    assert "const int row" in generated(lambda x: x + 1, 1 << 10, 1 << 10).kernels


@pytest.mark.full
def test_nvcc_compiles_every_kernel(tmp_path: Path) -> None:
    compiler = toolchain.nvcc()
    if compiler is None:
        pytest.skip("nvcc is not installed")
    x = torch.randn(4, *ROWS)
    module = Mapped(Parallel(MODULES)).train()
    for dtype, autocast in ((torch.float32, None), (torch.float32, "bfloat16"), (torch.float16, None)):
        plan = ExecutionPlan("f32", channels_last=False, device="cuda")
        module, batch = module.to(dtype), (x.to(dtype),)
        emit_step(plan, trace(export(module, batch), module, batch, False, autocast), batch)
        source = tmp_path / "kernels.cu"
        source.write_text(plan.kernels)
        flags = [*build.CUDA_FLAGS, "-gencode", "arch=compute_90,code=sm_90", f"-I{build.VENDOR / 'cuda'}"]
        command = [compiler, *flags, str(source), "-o", str(tmp_path / "kernels.fatbin")]
        process = subprocess.run(command, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        assert process.stderr == ""
