"""Models of timm and torchvision by their names there: random weights, no download."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from tare.cases.source import ModelDescription, ModelSource
from tare.errors import BadInput, first_line
from tare.workloads.base import Batch
from tare.workloads.own.shapes import batch_of, draw_inputs, inputs_text, read_shape

BATCH, RESOLUTION = 8, 224


class PackageModel:
    def __init__(self, source: ModelSource) -> None:
        self.source = source

    def build(self, **_: int) -> Any:
        return self._make()

    @cached_property
    def _make(self) -> Any:
        """What makes the model; BadInput names the valid names that are nearest."""
        name = self.source.location
        if self.source.kind == "timm":
            import timm

            self._check_name(timm.list_models())
            return lambda: timm.create_model(name, pretrained=False)
        from torchvision import models

        self._check_name(models.list_models())
        if name in models.list_models(module=models.detection):
            raise BadInput(f"{self.source.target} takes lists of images and boxes: measure it from a file")
        # Models that segment are built on another network, whose weights they would download.
        options = {"weights_backbone": None} if name in models.list_models(module=models.segmentation) else {}
        return lambda: models.get_model(name, weights=None, **options)

    def _check_name(self, names: Sequence[str]) -> None:
        name, kind = self.source.location, self.source.kind
        if name not in names:
            # A part of a name ("vit") is more often meant than a name that looks alike.
            near = ([each for each in names if name in each] or get_close_matches(name, names) or names)[:4]
            raise BadInput(f"{kind} has no model '{name[:80]}'; the nearest of {len(names)}: {', '.join(near)}")

    @cached_property
    def shapes(self) -> list[Any]:
        """From --input, or what the package says that the model was trained with."""
        if self.source.shapes:
            return [read_shape(text) for text in self.source.shapes]
        return [read_shape("x".join(map(str, (BATCH, *self._trained_with()))))]

    def _trained_with(self) -> tuple[int, ...]:
        name = self.source.location
        if self.source.kind == "timm":
            import timm

            config = timm.get_pretrained_cfg(name)
            return tuple(config.input_size) if config is not None else (3, RESOLUTION, RESOLUTION)
        from torchvision import models

        transforms = models.get_model_weights(name).DEFAULT.transforms()
        size = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None) or [RESOLUTION]
        size = [size] if isinstance(size, int) else list(size)
        height, width = size if len(size) == 2 else (size[0], size[0])
        frames = (16,) if name in models.list_models(module=models.video) else ()
        return (3, *frames, height, width)

    def inputs(self, batch: int, **_: int) -> Batch:
        import torch

        args = draw_inputs(self.shapes, batch)
        return Batch(args, torch.randint(0, 2, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        """The cross entropy of the main output. Models that segment have one class for every pixel."""
        from torch.nn import functional

        scores = output["out"] if isinstance(output, dict) else output[0] if isinstance(output, tuple) else output
        if scores.dim() == 4:
            target = target[:, None, None].expand(-1, *scores.shape[2:])
        return functional.cross_entropy(scores, target)

    def describe(self) -> ModelDescription:
        import torch

        # Checks the name and the inputs without computing anything.
        with torch.device("meta"):
            model = self._make()
            example = [shape.draw() for shape in self.shapes]
        try:
            model.eval()(*example)
        except RuntimeError as error:
            shapes = ", ".join(str(list(tensor.shape)) for tensor in example)
            raise BadInput(f"{self.source.target} fails on inputs of {shapes}: {first_line(error)}") from error
        return ModelDescription(
            batch=batch_of(self.shapes),
            inputs=inputs_text(self.shapes),
            trains=True,
            requires=(self.source.kind,),
        )
