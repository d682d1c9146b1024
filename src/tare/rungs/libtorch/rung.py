"""LibTorch: C++ programs on the frontend or on a TorchScript archive. No Python in the measured process."""

import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.rungs.native.rung import NativeRung, stage_batches
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload
from tare.workloads.objective import objective

# The networks in modules.hpp.
WRITTEN = ("conv_chain", "lstm", "mnist_cnn", "resnet50")


@rung
class LibTorch(NativeRung):
    name = "libtorch"
    summary = "the network written in C++ on the LibTorch frontend"
    variants = {"script": "its TorchScript archive, run by a C++ program"}

    def supports(self, case: Case, workload: Workload) -> str | None:
        if not _scripted(case) and workload.name not in WRITTEN:
            return f"{workload.name} is not written in C++ (those are: {', '.join(WRITTEN)}); try libtorch:script"
        if case.precision == "amp-fp16" and case.mode == "train":
            return "LibTorch has no gradient scaler, so float16 autocast does not train there"
        # The archive is a trace, as on the rung of that name.
        return workload.refusal({case.mode, "torchscript"}) if _scripted(case) else None

    def optimisations(self, case: Case) -> Sequence[str]:
        return ("frozen, batch norm folded",) if _scripted(case) and case.mode == "infer" else ()

    def program(self, case: Case) -> str:
        return "tare-script" if _scripted(case) else "tare-libtorch"

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        from tare.rungs.torch.program import TorchProgram

        with closing(TorchProgram(workload, case)) as program:
            if _scripted(case):
                _save_archive(program, folder)
                stage_batches(program, folder)
            else:
                stage_batches(program, folder, weights=_save_weights(program, folder))


def _scripted(case: Case) -> bool:
    return split_name(case.rung)[1] == "script"


def _save_weights(program: Any, folder: Path) -> list[str]:
    """Saves the weights and returns their names, by which the C++ network finds them."""
    import torch

    state = program.model.state_dict()
    torch.save([tensor.detach().cpu() for tensor in state.values()], folder / "weights.pt")
    return list(state)


def _save_archive(program: Any, folder: Path) -> None:
    import torch

    from tare.rungs.torch.outputs import TensorOutputs

    batch = program.feed()
    with warnings.catch_warnings():
        # Deprecated in torch.
        warnings.simplefilter("ignore")
        if program.trains:
            model_and_loss = objective(program.workload, program.model)
            graph = torch.jit.trace(model_and_loss, (*batch.args, batch.target), check_trace=False)
        else:
            model = TensorOutputs(program.model)
            graph = torch.jit.freeze(torch.jit.trace(model, batch.args, check_trace=False))
        torch.jit.save(graph, str(folder / "model.pt"))
