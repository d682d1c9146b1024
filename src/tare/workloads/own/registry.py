"""The models of a user as workloads: registered in the parent, and in its workers through a variable."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from tare.cases.source import ModelSource, OwnModel
from tare.errors import BadInput
from tare.workloads.base import Size, Workload

# A JSON list of OwnModel, which the launchers of workers set.
VARIABLE = "TARE_MODELS"
_models: dict[str, OwnModel] = {}


def register(model: OwnModel) -> Workload:
    """Makes a described model known here and to the workers that are started from now on."""
    known = _models.get(model.source.name)
    if known is not None and known.source.location != model.source.location:
        raise BadInput(
            f"{known.source.target} and {model.source.target} would both be called {model.source.name}: "
            "measure them one after the other"
        )
    _models[model.source.name] = model
    return _workload(model)


def forget(name: str) -> None:
    """The model of this name is gone: another one may have its name."""
    _models.pop(name, None)


def find_own(name: str) -> Workload | None:
    """The user's model of this name; None if there is none."""
    model = _models.get(name) or _inherited(os.environ.get(VARIABLE, "")).get(name)
    return _workload(model) if model else None


def own_names() -> list[str]:
    return list(_models)


def own_source(name: str) -> ModelSource | None:
    model = _models.get(name)
    return model.source if model else None


def variables() -> dict[str, str]:
    """What a worker must have in its environment; nothing where there are no such models."""
    return variables_of(list(_models.values()))


def variables_of(models: Sequence[OwnModel]) -> dict[str, str]:
    """The same for a worker that must know these models instead."""
    return {VARIABLE: msgspec.json.encode(models).decode()} if models else {}


def sources_in(folder: Path) -> list[ModelSource]:
    """The registered models with the files of another checkout: `folder` stands for the current one. BadInput
    names a file that is not there; files outside the current folder stay."""

    def moved(text: str) -> str:
        file, separator, name = text.rpartition("::") if "::" in text else (text, "", "")
        path = Path(file)
        if not path.is_absolute() or not path.is_relative_to(Path.cwd()):
            return text
        there = (folder / path.relative_to(Path.cwd())).resolve()
        if not there.is_file():
            raise BadInput(f"the baseline has no {there}")
        return f"{there}{separator}{name}"

    return [
        msgspec.structs.replace(
            model.source, **{name: moved(getattr(model.source, name)) for name in ("location", "inputs", "loss")}
        )
        for model in _models.values()
    ]


def definition_of(source: ModelSource, trains: bool = False, is_step: bool = False) -> object:
    """By the kind of the source. Nothing of the user's is imported until a model or its inputs are asked for."""
    if source.kind == "file":
        from tare.workloads.own.definition import FileModel, TrainableFileModel
        from tare.workloads.own.step import StepModel

        return (StepModel if is_step else TrainableFileModel if trains else FileModel)(source)
    if source.kind == "hf":
        from tare.workloads.own.transformers import TransformersModel

        return TransformersModel(source)
    if source.kind in ("timm", "torchvision"):
        from tare.workloads.own.vision import PackageModel

        return PackageModel(source)
    if source.kind == "exported":
        from tare.workloads.own.exported import ExportedModel

        return ExportedModel(source)
    if source.kind == "onnx":
        from tare.workloads.own.onnx_file import OnnxFile

        return OnnxFile(source)
    if source.kind == "pickled":
        from tare.workloads.own.pickled import PickledModel, PickledStep, TrainablePickledModel

        return (PickledStep if is_step else TrainablePickledModel if trains else PickledModel)(source)
    raise BadInput(f"{source.target}: models of the kind {source.kind} cannot be opened here")


@lru_cache(maxsize=1)
def _inherited(text: str) -> dict[str, OwnModel]:
    models = msgspec.json.decode(text, type=list[OwnModel]) if text else []
    return {model.source.name: model for model in models}


@lru_cache
def _cached_workload(text: bytes) -> Workload:
    model = msgspec.json.decode(text, type=OwnModel)
    source, description = model.source, model.description
    return Workload(
        name=source.name,
        definition=definition_of(source, description.trains, description.is_step),
        domain="other",
        task="the user's own",
        source=source.target,
        batch=description.batch,
        sizes={name: Size(value) for name, value in description.sizes.items()},
        requires=description.requires,
        # Whether a model has images to lay out otherwise is not known; other tensors stay as they are.
        layouts=("contiguous",) if source.kind == "onnx" else ("contiguous", "channels-last"),
        optimizer=description.optimizer,
        unsupported=description.unsupported,
        inputs_text=description.inputs,
        digest=description.digest,
        parity_off=description.parity,
        is_step=description.is_step,
        is_onnx=source.kind == "onnx",
        tokens=description.tokens,
    )


def _workload(model: OwnModel) -> Workload:
    # One object a model: programs of a process share what its definition has imported.
    return _cached_workload(msgspec.json.encode(model))
