"""What a precision means (type of the weights, autocast, TF32), pinned the same on every rung."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
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


# Flags that decide in which precision a step computes.
OF_PRECISION = ("tf32", "cudnn.tf32", "default_dtype", "autocast")


def pin_flags(case: Case) -> dict[str, str]:
    """Sets every flag that changes results, and returns the flags for the record."""
    import torch

    if case.threads:
        torch.set_num_threads(case.threads)
    tf32 = case.precision == "tf32"
    # cuDNN and cuBLAS have different defaults for TF32.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    return read_flags()


def read_flags() -> dict[str, str]:
    """The flags as they are now. A model, a library or a plug-in may have changed them."""
    import torch

    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    flags: dict[str, Callable[[], object]] = {
        "tf32": lambda: matmul.allow_tf32,
        "cudnn.tf32": lambda: cudnn.allow_tf32,
        "default_dtype": lambda: str(torch.get_default_dtype()).removeprefix("torch."),
        "autocast": lambda: torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"),
        "threads": torch.get_num_threads,
        "cudnn.benchmark": lambda: cudnn.benchmark,
        "cudnn.deterministic": lambda: cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled,
        "bf16_reduced_precision_reduction": lambda: matmul.allow_bf16_reduced_precision_reduction,
        "fp16_reduced_precision_reduction": lambda: matmul.allow_fp16_reduced_precision_reduction,
    }
    return {name: _flag_text(read) for name, read in flags.items()}


def _flag_text(read: Callable[[], object]) -> str:
    try:
        return str(read()).lower()
    except RuntimeError:
        # torch refuses to read a flag that was also set through its newer interface.
        return "mixed"


def changed_flags(before: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in read_flags().items() if before.get(name) != value}


def flags_changed_within(step: Callable[[], object], before: Mapping[str, str]) -> dict[str, str]:
    """Flags that a step changes, even if it restores them before it ends: it runs once more, and the flags are
    read after each function that sets something. (Autocast is the step's own: AMP turns it on.)"""
    changed: dict[str, str] = {}

    def watch(_: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__.lstrip("_").startswith("set_"):
            found = changed_flags(before)
            changed.update({name: found[name] for name in found if name != "autocast"})

    profiler = sys.getprofile()
    sys.setprofile(watch)
    try:
        step()
    finally:
        sys.setprofile(profiler)
    return changed
