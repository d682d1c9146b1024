"""`tare emit`: the step of a network on the vendor rung, as a project of C++ that a person can read."""

import secrets
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options, make_options
from tare.cases.plan import Plan, nothing_to_do
from tare.errors import BadInput, TareError
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.session import open_plan_session
from tare.measure.parity import load_reference
from tare.records.record import Parity
from tare.report.numbers import size
from tare.report.view import View
from tare.rungs.vendor.emission.layers import LayerFunction
from tare.rungs.vendor.emission.project import ENTRIES, MARK, ProjectFacts, write_project
from tare.system.processes import interruptible

# The rung is run once, for its parity; nothing of the time is kept.
BUDGET_S = 0.5
TIMEOUT_S = 3600.0


class EmittedLayer(msgspec.Struct):
    function: str
    module: str
    phase: str
    calls: int
    flops: int | None
    bytes: int
    memory: int


class EmittedProject(msgspec.Struct):
    """What was written, and the parity of the rung that runs the same plan."""

    folder: str
    case: str
    files: dict[str, int]
    layers: list[EmittedLayer]
    parity: Parity

    def view(self) -> View:
        """What was written, and what to do with it."""
        folder = shlex.quote(self.folder)
        kernels = sum(name.startswith("kernels/fused") for name in self.files)
        calls = sum(layer.calls for layer in self.layers)
        view = View()
        view.add("title", f"written: {self.folder}/ ({size(sum(self.files.values()))})")
        view.add(
            "item",
            f"{len(self.layers)} functions, {calls} calls, {kernels} generated kernels; read step.cpp first",
        )
        view.add(
            "item", f"cmake -S {folder} -B {folder}/build && cmake --build {folder}/build && {folder}/build/step"
        )
        return view


def emit_project(plan: Plan, folder: Path, force: bool, command: str, on_stage: OnStage) -> EmittedProject:
    """Stages the one case of a plan for the vendor rung, runs it once to compare it with the reference, and writes
    the project."""
    folder = folder.resolve()
    check_target(folder, force)
    options = make_options({"rounds": 1, "budget": BUDGET_S, "timeout": TIMEOUT_S})
    with interruptible(), open_plan_session(plan, options.isolation, on_stage) as session:
        cases = [*session.expansion.cases, *session.expansion.searched]
        if not cases:
            raise nothing_to_do(session.expansion.skipped)
        if len(cases) > 1:
            raise BadInput(
                f"a project is of one step, and these are {len(cases)}: {cases[0].key}, {cases[1].key}, ..."
            )
        parity = _prove(session.executor, cases[0], options)
        on_stage("writing the source")
        return _write(session.executor, cases[0], options, parity, folder, force, command)


def check_target(folder: Path, force: bool) -> None:
    """BadInput for a folder that holds anything that was not made here."""
    if not folder.parent.is_dir():
        raise BadInput(f"{folder.parent} is no folder: want a folder in one that exists")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: want a folder")
    if force or not folder.exists() or not any(folder.iterdir()):
        return
    readme = folder / "README.md"
    with suppress(OSError, UnicodeDecodeError), readme.open() as file:
        if file.readline().strip() == MARK:
            return
    raise BadInput(
        f"{folder} is not empty and was not made by tare emit: name another, or --force to write into it"
    )


def _prove(executor: LocalExecutor, case: Case, options: Options) -> Parity:
    """The parity of the rung. A check against the reference has to be possible."""
    round_ = executor.run_round(case, 0, options, check=True)
    if round_.failure:
        raise TareError(f"the vendor rung cannot run {case.workload}: {round_.failure.message}")
    parity = round_.parity or Parity(status="unchecked", reason="the rung gave no result to compare")
    if parity.status == "unchecked":
        raise TareError(f"there is nothing to check the step of {case.workload} against: {parity.reason}")
    if parity.status != "same":
        raise TareError(
            f"the vendor rung's own step of {case.workload} differs from the reference: {parity.worst} is off by "
            f"{parity.error:.2g}, allowed {parity.tolerance:.2g}"
        )
    return parity


def _write(
    executor: LocalExecutor,
    case: Case,
    options: Options,
    parity: Parity,
    folder: Path,
    force: bool,
    command: str,
) -> EmittedProject:
    # Of this round, with the errors of eager that the verdict went by.
    reference = load_reference(Path(executor.reference_job(case, options).folder))
    assert reference is not None
    batch = f"batch {case.batch}" + "".join(f", {name} {size}" for name, size in case.sizes.items())
    what = {"train": f"training by {case.optimizer}", "infer": "inference"}[case.mode]
    about = ProjectFacts(
        f"One step of {case.workload}: {what} in {case.precision} on the CPU, {batch}",
        command,
        case.precision,
        f"{reference.described}; tare found the same plan equal to it in {parity.compared} tensors",
        case.threads,
    )
    partial = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir()
        layers = write_project(executor.staged_folder(case), reference, about, partial)
        files = {
            path.relative_to(partial).as_posix(): path.stat().st_size
            for path in sorted(partial.rglob("*"))
            if path.is_file()
        }
        # It may have got content meanwhile.
        check_target(folder, force)
        _move(partial, folder)
    except OSError as error:
        raise TareError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return EmittedProject(str(folder), case.key, files, [_described(layer) for layer in layers], parity)


def _move(partial: Path, folder: Path) -> None:
    """Puts a whole project in its place at once; into a folder with content, entry by entry, and what is not of a
    project stays (a build folder). Where that fails, everything is as it was."""
    if not folder.exists() or not any(folder.iterdir()):
        partial.replace(folder)
        return
    old = partial.with_suffix(".old")
    old.mkdir()
    moved: list[str] = []
    try:
        for name in ENTRIES:
            moved.append(name)
            if (folder / name).exists():
                (folder / name).rename(old / name)
            if (partial / name).exists():
                (partial / name).rename(folder / name)
    except BaseException:
        for name in moved:
            if (old / name).exists():
                _remove(folder / name)
                (old / name).rename(folder / name)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _described(layer: LayerFunction) -> EmittedLayer:
    return EmittedLayer(
        layer.name, layer.title, layer.phase, len(layer.ops), layer.flops, layer.traffic, layer.memory
    )
