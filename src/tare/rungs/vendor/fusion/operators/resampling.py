"""Resampling of images."""

from collections.abc import Sequence
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.operators.products import matrix_product
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import Operand


@reads(
    "upsample_nearest1d_backward", "upsample_linear1d_backward", "upsample_nearest2d_backward",
    "upsample_bilinear2d_backward", "upsample_bicubic2d_backward", "upsample_nearest3d_backward",
    "upsample_trilinear3d_backward",
)  # fmt: skip
def upsample_backward(
    reader: Reader, meta: Meta, grad_output: Operand, output_size: Sequence[int], input_size: Sequence[int],
    align_corners: bool | None = None, **scales: Any,
) -> Operand:  # fmt: skip
    """Resampling is a product with a matrix for each side of the image, its gradient one with their transposes."""
    matrices = _matrices(meta.name, input_size[2:], output_size, align_corners, scales)
    return _along_sides(reader, meta, grad_output, matrices)


@reads("upsample_bicubic2d")
def upsample(
    reader: Reader,
    meta: Meta,
    self: Operand,
    output_size: Sequence[int],
    align_corners: bool,
    **scales: Any,
) -> Operand:
    image = reader.view(self)
    matrices = _matrices(meta.name, image.shape[2:], output_size, align_corners, scales)
    return _along_sides(reader, meta, image, [matrix.t() for matrix in matrices])


def _along_sides(reader: Reader, meta: Meta, operand: Operand, matrices: Sequence[Any]) -> Operand:
    """The products of every line of pixels along a side with the side's matrix, one side after the other. In
    float32, because a half type has no room for the weights of pixels."""
    images = reader.view(reader.cast(operand, "f32"))
    for axis, matrix in enumerate(matrices, start=2):
        last = [*(each for each in range(len(images.shape)) if each != axis), axis]
        lines = images.permute(last)
        rows, (size, wanted) = lines.size // lines.shape[-1], matrix.shape
        flat = reader.view(reader.reshape(reader.contiguous(lines), (rows, size)))
        product = matrix_product(reader, (rows, wanted), flat, reader.view(reader.constant(matrix.contiguous())))
        moved = reader.view(reader.reshape(product, (*lines.shape[:-1], wanted)))
        images = moved.permute([last.index(each) for each in range(len(last))])
    return reader.cast(images, meta.dtype)


def _matrices(
    name: str, sources: Sequence[int], results: Sequence[int], align_corners: bool | None, scales: dict[str, Any]
) -> list[Any]:
    """For each side, what each pixel of the result takes from each of the source: (result, source)."""
    given = list(scales.values()) or [None] * len(results)
    for source, size, scale in zip(sources, results, given, strict=True):
        # Without one it is the quotient of the sizes.
        if scale is not None and source * scale != size:
            raise Unsupported(f"{name} by {scale}, from {source} to {size} pixels")
    kind = name.removeprefix("upsample_").removesuffix("_backward").rstrip("123d")
    method = kind if kind in ("nearest", "bicubic") else "linear"
    return [
        _resampling(source, size, method, align_corners) for source, size in zip(sources, results, strict=True)
    ]


def _resampling(source: int, size: int, method: str, align_corners: bool | None) -> Any:
    from torch import eye
    from torch.nn.functional import interpolate

    if method == "bicubic":
        rows = eye(source)[None, :, :, None].expand(1, source, source, 2)
        return interpolate(rows, (size, 2), mode="bicubic", align_corners=align_corners)[0, :, :, 0].t()
    corners = align_corners if method == "linear" else None
    return interpolate(eye(source)[None], size, mode=method, align_corners=corners)[0].t()
