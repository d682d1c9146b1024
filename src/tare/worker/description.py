"""For a user's model: the worker imports it, runs it once on the CPU, and tells the parent what it must know."""

from pathlib import Path
from typing import Any

from tare.cases.source import ModelSource
from tare.protocol.jobs import DescribeJob
from tare.protocol.messages import Described, Send, Stage
from tare.workloads.own.calls import is_step
from tare.workloads.own.files import load_object
from tare.workloads.own.pickled import load_pickled
from tare.workloads.own.registry import definition_of


def describe_model(job: DescribeJob, send: Send) -> Described:
    source = job.source
    send(Stage("build"))
    definition: Any = definition_of(source, is_step=_is_whole_step(source))
    return Described(definition.describe())


def _is_whole_step(source: ModelSource) -> bool:
    if source.kind == "pickled":
        return load_pickled(Path(source.location)).is_step
    return source.kind == "file" and is_step(load_object(f"{source.location}::{source.object}"))
