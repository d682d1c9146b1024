"""What a precision means (type of the weights, autocast, TF32), pinned the same on every rung."""

from dataclasses import dataclass
from typing import Any

from tare.cases.case import Case


@dataclass(frozen=True)
class Numerics:
    """Names of torch types. Weights and inputs are rounded to `rounded_to` before they are stored, so that the
    float64 reference of a bfloat16 case starts from the same rounded numbers."""

    storage: str = "float32"
    autocast: str | None = None
    rounded_to: str | None = None

    def convert(self, numbers: Any) -> Any:
        """A floating-point tensor, or the parameters of a module, in the type of the weights."""
        import torch

        if self.rounded_to:
            numbers = numbers.to(getattr(torch, self.rounded_to))
        return numbers.to(getattr(torch, self.storage))


PRECISIONS = {
    "fp32": Numerics(),
    "tf32": Numerics(),
    "bf16": Numerics(storage="bfloat16"),
    "fp16": Numerics(storage="float16"),
    "amp-bf16": Numerics(autocast="bfloat16"),
    "amp-fp16": Numerics(autocast="float16"),
}


def reference_numerics(precision: str, storage: str = "float64") -> Numerics:
    return Numerics(storage=storage, rounded_to=PRECISIONS[precision].storage)


def pin_flags(case: Case) -> dict[str, str]:
    """Sets every flag that changes results, and returns the flags for the record."""
    import torch

    if case.threads:
        torch.set_num_threads(case.threads)
    tf32 = case.precision == "tf32"
    # cuDNN and cuBLAS have different defaults for TF32.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    matmul = torch.backends.cuda.matmul
    flags = {
        "tf32": tf32,
        "threads": torch.get_num_threads(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "bf16_reduced_precision_reduction": matmul.allow_bf16_reduced_precision_reduction,
        "fp16_reduced_precision_reduction": matmul.allow_fp16_reduced_precision_reduction,
    }
    return {name: str(value).lower() for name, value in flags.items()}
