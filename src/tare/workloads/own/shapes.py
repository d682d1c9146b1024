"""Shapes as text: `8x3x224x224`, `8x128:int64<30522`, `input_ids=8x128:int64<30522`."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tare.errors import BadInput

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
          "complex64")  # fmt: skip
WHOLE = ("int64", "int32", "int16", "int8", "uint8")
# Whole numbers without a bound: small enough for an index of almost anything.
DEFAULT_BOUND = 2
MOST_DIMENSIONS, MOST_ELEMENTS = 12, 2**40
# In place of the number that is the batch.
BATCH = "N"
_SHAPE = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<sizes>\d+(?:x\d+)*)(?::(?P<dtype>[a-z]+\d*))?(?:<(?P<bound>\d+))?"
)


class Shape(NamedTuple):
    """One input. Whole numbers are drawn from 0 to `bound`, without the bound; `name` is that of a parameter."""

    sizes: tuple[int, ...]
    dtype: str = "float32"
    bound: int | None = None
    name: str = ""

    def text(self, batch: int) -> str:
        """As in the key of a case: with N for the batch, so that it is the same for every batch size."""
        first, *rest = self.sizes
        sizes = "x".join([BATCH if first == batch else str(first), *map(str, rest)])
        name = f"{self.name}." if self.name else ""
        dtype = "" if self.dtype == "float32" else f":{self.dtype}"
        return f"{name}{sizes}{dtype}" + (f"<{self.bound}" if self.bound is not None else "")

    def draw(self, batch: int | None = None) -> "torch.Tensor":
        """Random values from torch's generator; with `batch`, of that first size."""
        import torch

        sizes = self.sizes if batch is None else (batch, *self.sizes[1:])
        dtype = getattr(torch, self.dtype)
        if self.dtype == "bool":
            return torch.randint(0, 2, sizes).bool()
        if self.dtype in WHOLE:
            return torch.randint(0, self.bound or DEFAULT_BOUND, sizes, dtype=dtype)
        return torch.randn(sizes, dtype=dtype)


def read_shape(text: str) -> Shape:
    """BadInput names what is wrong."""
    parts = _SHAPE.fullmatch(text.strip())
    if parts is None:
        raise BadInput(f"'{text[:80]}' is not a shape: want 8x3x224x224, 8x128:int64<30522 or name=8x128")
    dtype, bound = parts["dtype"] or "float32", parts["bound"]
    if dtype not in DTYPES:
        raise BadInput(f"'{text[:80]}': unknown type '{dtype}'; valid: {', '.join(DTYPES)}")
    if bound is not None and (dtype not in WHOLE or not 0 < int(bound) < 2**31):
        raise BadInput(f"'{text[:80]}': a bound is a positive whole number for whole numbers ({', '.join(WHOLE)})")
    sizes = tuple(map(int, parts["sizes"].split("x")))
    elements = 1
    for size in sizes:
        elements *= size
    if not 0 < elements <= MOST_ELEMENTS or len(sizes) > MOST_DIMENSIONS:
        raise BadInput(f"'{text[:80]}': a shape has 1 to {MOST_DIMENSIONS} positive sizes")
    return Shape(sizes, dtype, int(bound) if bound is not None else None, parts["name"] or "")


def batch_of(shapes: Sequence[Shape]) -> int:
    """The first size of the first input."""
    return shapes[0].sizes[0]


def inputs_text(shapes: Sequence[Shape]) -> str:
    batch = batch_of(shapes)
    return "+".join(shape.text(batch) for shape in shapes)[:200]


def draw_inputs(shapes: Sequence[Shape], batch: int) -> tuple["torch.Tensor", ...]:
    """Inputs whose first size is that of the first input have the batch there."""
    first = batch_of(shapes)
    return tuple(shape.draw(batch if shape.sizes[0] == first else None) for shape in shapes)
