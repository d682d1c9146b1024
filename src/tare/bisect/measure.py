"""One run of one candidate: a command that prints a figure or is timed, or one round of a case."""

import json
import math
import time
from pathlib import Path
from typing import Any

import msgspec

from tare.bisect.command import CandidateFailed, command_arguments, run_command
from tare.bisect.journal import CandidateRun
from tare.bisect.spec import PLACEHOLDER, BisectSpec
from tare.bisect.workspaces import Workspace
from tare.cases.case import Case
from tare.errors import BadInput
from tare.guard.changes import call_counts
from tare.guard.metrics import METRICS, values
from tare.records.codec import decode_record

# The names under which a command's JSON object may give its figure.
VALUE_NAMES = ("value", "seconds")


def measure_candidate(spec: BisectSpec, candidate: int, workspace: Workspace) -> CandidateRun:
    """A run; CandidateFailed with the reason if there is none."""
    began = time.perf_counter()
    fields = _measure_case(spec, workspace) if spec.uses_tare else _measure_command(spec, workspace)
    value = fields["value"]
    if not (math.isfinite(value) and (value > 0 or (spec.is_count and value == 0))):
        raise CandidateFailed(f"the figure is {value}, and must be positive")
    label = spec.candidates[candidate].label
    return CandidateRun(candidate=candidate, label=label, seconds=time.perf_counter() - began, **fields)


def plan_text(case: Case, budget: float) -> str:
    """A plan of one case and one round. TOML accepts the strings and numbers of JSON."""
    fields = msgspec.structs.asdict(case)
    sizes = fields.pop("sizes")
    # An optimizer or a number of threads that a case does not state stays unstated.
    lines = [f"{name} = [{json.dumps(value)}]" for name, value in fields.items() if value]
    lines += [f"size.{name} = [{value}]" for name, value in sizes.items()]
    return "\n".join(["[options]", "rounds = 1", f"budget = {budget}", "parity = false", "[[grid]]", *lines, ""])


def read_figures(output: str) -> tuple[float, dict[str, float]]:
    """The last line that a command printed: a number, or an object with 'value' and further figures."""
    line = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    given = document if isinstance(document, dict) else {VALUE_NAMES[0]: document}
    figures = {name: float(value) for name, value in given.items() if _is_number(value)}
    for name in VALUE_NAMES:
        if name in figures:
            return figures.pop(name), figures
    raise CandidateFailed(
        f"the command's last line is '{line[:60]}', and must be a number or an object with a number 'value' "
        "(--measure wall times the command instead)"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _measure_command(spec: BisectSpec, workspace: Workspace) -> dict[str, Any]:
    arguments = command_arguments(spec.command or "", workspace.values, "--command")
    folder = _folder(spec, workspace)
    began = time.perf_counter()
    output = run_command(arguments, folder, workspace.environment, spec.timeout)
    if spec.reading == "wall":
        return {"value": time.perf_counter() - began}
    value, figures = read_figures(output)
    return {"value": value, "figures": figures}


def _folder(spec: BisectSpec, workspace: Workspace) -> Path:
    """Where relative paths mean what they mean to the user."""
    return workspace.folder / (spec.folder or "")


def _measure_case(spec: BisectSpec, workspace: Workspace) -> dict[str, Any]:
    # Outside of a worktree, which it would change.
    folder = workspace.folder.parent if spec.repo else workspace.folder
    plan, store = folder / "bisect-plan.toml", folder / "records.db"
    if spec.case:
        plan.write_text(plan_text(Case.parse(spec.case), spec.budget))
        what, folder = [str(plan)], workspace.folder
    else:
        what = [
            *_target(spec, workspace.values["label"]),
            "--rounds",
            "1",
            "--budget",
            str(spec.budget),
            "--no-parity",
        ]
        folder = _folder(spec, workspace)
    command = [workspace.python, "-m", "tare", "run", *what, "--json", "--store", str(store)]
    try:
        output = run_command(command, folder, workspace.environment, spec.timeout)
    except CandidateFailed as error:
        # A case that fails has a record too, and the record names the cause.
        if not error.output.lstrip().startswith("{"):
            raise
        output = error.output
    return _read_record(output, spec.metric, plan)


def _target(spec: BisectSpec, label: str) -> list[str]:
    """The arguments of `tare run`, with the version of the rung."""
    return [text.replace(PLACEHOLDER, label) if spec.environments_of else text for text in spec.target]


def _read_record(output: str, metric: str, plan: Path) -> dict[str, Any]:
    try:
        documents = msgspec.json.decode(output)["records"]
        if len(documents) > 1:
            raise CandidateFailed(
                f"{len(documents)} cases were named, and one is bisected: name one rung and mode"
            )
        record = decode_record(msgspec.json.encode(documents[0]), str(plan))
    except (msgspec.DecodeError, BadInput, KeyError, IndexError, TypeError) as error:
        raise CandidateFailed(f"the candidate's tare gave no record: {error}") from None
    if record.failure:
        raise CandidateFailed(f"{record.failure.cause} in {record.failure.stage}: {record.failure.message}")
    figures = {each.name: next(iter(rounds.values())) for each in METRICS if (rounds := values(record, each))}
    if metric not in figures:
        raise CandidateFailed(f"the record has no {metric}")
    return {
        "value": figures.pop(metric),
        "figures": figures,
        "calls": call_counts(record),
        "environment": record.environment,
    }
