"""The vendor rung: a step is a fixed list of cuDNN and cuBLAS calls (on a CPU: BLAS), without a framework."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import learning_rate
from tare.rungs.native.rung import NativeRung, missing_for
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload
from tare.workloads.variants import make_batches


@rung
class Vendor(NativeRung):
    name = "vendor"
    summary = "cuDNN and cuBLAS on a GPU, BLAS on a CPU, called by a C++ program that walks a static plan"
    variants = {"graph": "the same step captured in a CUDA graph"}

    def available(self, device_type: str) -> Missing | None:
        if device_type not in ("cpu", "cuda"):
            return Missing(f"it knows no library for {device_type}", "use --device cpu or cuda")
        return missing_for(f"vendor/{device_type}")

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        on_cpu = case.device_type == "cpu"
        if split_name(case.rung)[1] == "graph" and on_cpu:
            return "a CUDA graph needs a CUDA device"
        if on_cpu and case.precision == "tf32":
            return "a CPU has no tf32"
        if case.optimizer not in (None, "sgd", "adam", "adamw"):
            return f"its updates are SGD with momentum, Adam and AdamW, not {case.optimizer}"
        if case.precision == "amp-fp16" and case.mode == "train":
            return "it has no gradient scaler, so float16 autocast does not train there"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:
        folded = ["batch norm folded"] if case.mode == "infer" else []
        searched = ["engines searched"] if case.device_type == "cuda" else []
        replayed = ["launches replayed"] if split_name(case.rung)[1] == "graph" else []
        return [*folded, "operators fused", *searched, "memory planned", *replayed]

    def program(self, case: Case) -> str:
        return f"tare-vendor-{case.device_type}"

    def staged_as(self, case: Case) -> Case:
        # The executable captures the graph itself, so both variants read the same plan.
        return msgspec.structs.replace(case, rung=self.name)

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        from tare.rungs.torch.feeds import move
        from tare.rungs.torch.numerics import PRECISIONS
        from tare.rungs.vendor.lowering.lower import flat_tensors, lower

        numerics, trains = PRECISIONS[case.precision], case.mode == "train"
        made = make_batches(workload, case.batch, case.sizes)
        batches = [move(batch, "cpu", numerics, case.layout) for batch in made]
        rate = learning_rate(workload, case) if trains else 0.0
        plan = lower(workload, case, batches[0], numerics.storage, numerics.autocast, rate)
        plan.write(folder, [flat_tensors(batch, trains) for batch in batches])
