"""One run of one candidate: a command that prints a figure or is timed, or one round of a case."""

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec

from tare.bisect.journal import Run
from tare.bisect.process import CannotRun, run_vector
from tare.bisect.spec import Spec, vector
from tare.bisect.worktrees import Place
from tare.cases.case import Case
from tare.errors import BadInput
from tare.guard.environment_diff import names
from tare.guard.metrics import METRICS, get_metric, values
from tare.records.codec import decode_record

# What a command's object calls its figure.
VALUE_NAMES = ("value", "seconds")


def measure(spec: Spec, candidate: int, place: Place) -> Run:
    """A run, or CannotRun with the reason."""
    label = spec.candidates[candidate].label
    began = time.perf_counter()
    found = _measure_case(spec, place) if spec.case else _measure_command(spec, place)
    value = found["value"]
    is_count = spec.case is not None and get_metric(spec.metric).exact
    if not (math.isfinite(value) and (value > 0 or (is_count and value == 0))):
        raise CannotRun(f"the figure is {value}, and must be positive")
    return Run(candidate=candidate, label=label, seconds=time.perf_counter() - began, **found)


def plan_text(case: Case, budget: float) -> str:
    """A plan of one case and one round. JSON's texts and numbers are TOML's, too."""
    fields: dict[str, Any] = {
        "workload": case.workload,
        "rung": case.rung,
        "mode": case.mode,
        "device": case.device,
        "precision": case.precision,
        "batch": case.batch,
        "feed": case.feed,
        "layout": case.layout,
    }
    if case.optimizer:
        fields["optimizer"] = case.optimizer
    if case.threads:
        fields["threads"] = case.threads
    lines = [f"{name} = [{json.dumps(value)}]" for name, value in fields.items()]
    lines += [f"size.{name} = [{value}]" for name, value in case.sizes.items()]
    return "\n".join(["[options]", "rounds = 1", f"budget = {budget}", "parity = false", "[[grid]]", *lines, ""])


def read_figures(output: str) -> tuple[float, dict[str, float]]:
    """The last line of what a command printed: a number, or an object with 'value' and further figures."""
    line = next((each.strip() for each in reversed(output.splitlines()) if each.strip()), "")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise CannotRun(
            f"the command's last line is '{line[:60]}', which is no number; --measure wall times it instead"
        ) from None
    if isinstance(found, dict):
        figures = {name: float(each) for name, each in found.items() if _is_number(each)}
        for name in VALUE_NAMES:
            if name in figures:
                return figures.pop(name), figures
        raise CannotRun(f"the command's object has no number 'value' in its last line ({line[:60]})")
    if not _is_number(found):
        raise CannotRun(f"the command's last line is '{line[:60]}', which is no number")
    return float(found), {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _measure_command(spec: Spec, place: Place) -> dict[str, Any]:
    command = vector(spec.command or "", place.values, "--command")
    found = shutil.which(command[0], path=place.environment.get("PATH"))
    where = Path(spec.folder) if spec.folder else place.folder
    done = run_vector([found or command[0], *command[1:]], where, place.environment, spec.timeout)
    if spec.reading == "wall":
        return {"value": done.seconds}
    value, figures = read_figures(done.output)
    return {"value": value, "figures": figures}


def _measure_case(spec: Spec, place: Place) -> dict[str, Any]:
    case = Case.parse(spec.case or "")
    plan = place.folder.parent / "bisect-plan.toml" if spec.repo else place.folder / "bisect-plan.toml"
    plan.write_text(plan_text(case, spec.budget))
    store = plan.with_name("records.db")
    command = [place.python, "-m", "tare", "run", str(plan), "--json", "--store", str(store)]
    try:
        output = run_vector(command, place.folder, place.environment, spec.timeout).output
    except CannotRun as error:
        # A case that fails has a record as well, which says why; the last words of a document say nothing.
        if not error.output.lstrip().startswith("{"):
            raise
        output = error.output
    return _read_case(output, spec.metric, plan)


def _read_case(output: str, metric: str, where: Path) -> dict[str, Any]:
    try:
        documents = msgspec.json.decode(output)["records"]
        record = decode_record(msgspec.json.encode(documents[0]), str(where))
    except (msgspec.DecodeError, BadInput, KeyError, IndexError, TypeError) as error:
        raise CannotRun(f"the candidate's tare gave no record: {error}") from None
    if record.failure:
        raise CannotRun(f"{record.failure.cause} in {record.failure.stage}: {record.failure.message}")
    figures = {each.name: next(iter(found.values())) for each in METRICS if (found := values(record, each))}
    wanted = get_metric(metric).name
    if wanted not in figures:
        raise CannotRun(f"the record has no {wanted}")
    value = figures.pop(wanted)
    named = {f"{what}s": names(record, what) for what in ("operator", "kernel")}
    return {"value": value, "figures": figures, **named, "environment": record.environment}
