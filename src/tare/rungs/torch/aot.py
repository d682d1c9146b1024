"""AOTInductor: the exported graph compiled ahead of time into a package, run from C++ or from Python."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program
from tare.rungs.native.rung import NativeRung, stage_batches
from tare.rungs.registry import get_rung, rung, split_name
from tare.workloads.base import Workload


@rung
class Aot(NativeRung):
    name = "aot"
    summary = "AOTInductor: exported, compiled ahead of time, run by a C++ program"
    variants = {"python": "the same package run from Python"}
    caches = True

    def available(self, device_type: str) -> Missing | None:
        # Inductor generates its kernels, and needs what torch.compile needs.
        return get_rung("compile").available(device_type) or super().available(device_type)

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        if case.mode == "train":
            return "AOTInductor compiles inference only"
        if case.precision.startswith("amp-"):
            return "an exported graph has no autocast: use bf16 or fp16"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:  # noqa: ARG002
        return ("operators fused by Inductor", "weights frozen")

    def program(self, case: Case) -> str:  # noqa: ARG002
        return "tare-aot"

    def is_executable(self, case: Case) -> bool:
        return split_name(case.rung)[1] != "python"

    def prepare(self, workload: Workload, case: Case) -> Program:
        from torch._inductor import aoti_load_package

        from tare.rungs.torch.compile import inductor_program

        program = inductor_program(workload, case)
        # Inductor's cache folder belongs to this case, so that a later process finds the package.
        path = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "model.pt2"
        if not path.exists():
            _package(program, path)
        # Loading a package needs this module, and does not import it itself.
        import_module("torch._inductor.codecache")
        _share_torch_symbols()
        index = -1 if program.device.type == "cpu" else program.device.index or 0
        program.forward = aoti_load_package(str(path), device_index=index)
        program.step = program.plain_step()
        return program

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        from tare.rungs.torch.program import TorchProgram

        with contextlib.closing(TorchProgram(workload, case)) as program:
            _package(program, folder / "model.pt2")
            stage_batches(program, folder)


def _share_torch_symbols() -> None:
    """Makes torch's C++ symbols global. A package built by another compiler than torch otherwise brings its own
    parts of the C++ library, and crashed in std::regex while it was loaded (torch 2.11, Ubuntu's g++ 13)."""
    if sys.platform != "linux":
        return
    import torch

    for name in ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch.so"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name), mode=ctypes.RTLD_GLOBAL)


def _package(program: Any, path: Path) -> None:
    import torch
    from torch._dynamo import config
    from torch._inductor import aoti_compile_and_package

    from tare.rungs.torch.outputs import TensorOutputs

    # Export takes no tensors made under inference mode, and needs no gradients. cuDNN is off while it traces, and
    # without cuDNN the result of a channels-last convolution is contiguous. torch caches that layout, and Inductor
    # would silently read cuDNN's output in the wrong order (torch 2.11), so the cache is off.
    with torch.inference_mode(False), torch.no_grad(), config.patch(fake_tensor_cache_enabled=False):
        exported = torch.export.export(TensorOutputs(program.model), program.feed().args)
        aoti_compile_and_package(exported, package_path=str(path))
