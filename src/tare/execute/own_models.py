"""A user's models become workloads: a worker imports and describes each, the parent registers the description."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tare.cases.options import Options
from tare.cases.source import ModelSource, OwnModel
from tare.errors import BadInput
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.launch import Launcher, SpawnLauncher
from tare.protocol.jobs import DescribeJob
from tare.protocol.messages import Described
from tare.records.record import Failure
from tare.system.scratch import scratch
from tare.workloads import Workload, get_workload
from tare.workloads.own.registry import register, sources_in
from tare.workloads.own.shapes import read_shape

# Importing a library of models, building one and running it once takes no longer.
LONGEST_S = 600.0


def register_models(
    sources: Sequence[ModelSource], on_stage: OnStage = lambda _: None, timeout: float = LONGEST_S
) -> list[Workload]:
    """The workloads of these models; BadInput says in one line why one of them cannot be used."""
    return [register(model) for model in _describe(sources, SpawnLauncher(), on_stage, timeout)]


def models_in(folder: Path, launcher: Launcher, on_stage: OnStage, timeout: float) -> list[OwnModel]:
    """The registered models as another checkout has them, described by its own version. BadInput where one of them
    has other inputs there: the two would do different work."""
    models = list(_describe(sources_in(folder), launcher, on_stage, timeout))
    for model in models:
        now, before = get_workload(model.source.name).inputs_text, model.description.inputs
        if now != before:
            raise BadInput(
                f"{model.source.target} has the inputs {before} in {folder} and {now} here: "
                "give both the same, with --input or --inputs"
            )
    return models


def _describe(
    sources: Sequence[ModelSource], launcher: Launcher, on_stage: OnStage, timeout: float
) -> Iterator[OwnModel]:
    if not sources:
        return
    for source in sources:
        # What is wrong with an option needs no process to be found.
        for shape in source.shapes:
            read_shape(shape)
    with scratch() as folder:
        executor = LocalExecutor(launcher, folder, on_stage)
        for source in sources:
            on_stage(f"importing {source.target}")
            answer = executor.ask(DescribeJob(source=source), Described, Options(timeout=min(timeout, LONGEST_S)))
            if isinstance(answer, Failure):
                raise BadInput(answer.message if answer.exception == "BadInput" else _explain(source, answer))
            yield OwnModel(source=source, description=answer.description)


def _explain(source: ModelSource, failure: Failure) -> str:
    # An exception or a signal is named by its message already.
    cause = "" if failure.cause in ("exception", "signal") else f"{failure.cause}, "
    return f"{source.target} cannot be used: {cause}{failure.message}"
