"""Coverage from workloads to figures: each runs under interception in a worker of its own. Nothing is timed."""

from collections.abc import Sequence

from tare.cases.grid import nothing_to_do
from tare.cases.options import DEFAULT_ISOLATION, Options
from tare.cases.plan import expand_plan, make_plan, open_names
from tare.errors import TareError
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.preload import preload
from tare.execute.session import open_executor
from tare.protocol.jobs import CoverJob, RegistryJob
from tare.protocol.messages import Covered, Registered
from tare.records.record import Failure
from tare.report.coverage import Coverage, make_coverage
from tare.report.terminal import make_console
from tare.workloads.groups import all_groups

TIMEOUT_S = 300.0


def cover_workloads(targets: Sequence[str], device: str, show_progress: bool = True) -> Coverage:
    """What the targets (workloads and groups) cover at smoke size, in eager, inferring and training."""
    # One thread: the operators are the same, and two busy cores stay usable.
    grid = {"rung": "eager", "mode": ["infer", "train"], "device": device, "threads": 1, "smoke": True}
    plan = open_plan(make_plan({"grid": [{"workload": list(targets), **grid}]}, "the command line"))
    names = plan.grids[0].workload
    options = Options(timeout=TIMEOUT_S, isolation=DEFAULT_ISOLATION)
    console = make_console(stderr=True)
    modules = preload(names, ("infer", "train"), ("eager",), (device,))
    with (
        console.status("looking at this machine") as status,
        open_executor(options.isolation, preload=modules) as executor,
    ):
        found = expand_plan(plan, LocalCatalogue(executor.probe()))
        if not found.cases:
            raise nothing_to_do(found.skipped)
        registered = executor.ask(RegistryJob(), Registered, options)
        if isinstance(registered, Failure):
            raise TareError(f"cannot read torch's registries: {registered.message}")
        answers = []
        for i, case in enumerate(found.cases, 1):
            status.update(f"{i} of {len(found.cases)}: {case.workload} {case.mode}")
            answer = executor.ask(CoverJob(case=case), Covered, options, case.device)
            answers.append((case.workload, case.mode, answer))
            # Off a terminal there is no status line, and a whole zoo takes minutes.
            if show_progress and not console.is_terminal:
                outcome = answer.cause if isinstance(answer, Failure) else "ok"
                console.print(f"{case.workload} {case.mode} {outcome}", soft_wrap=True)
    # Not what was asked for, which may be "auto" or "all".
    devices = " and ".join(dict.fromkeys(case.device for case in found.cases))
    return make_coverage(registered, devices, answers, found.skipped, _complete_groups(names))


def _complete_groups(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The groups whose workloads were all asked for: a part of a group has no coverage of its own."""
    asked = set(names)
    groups = all_groups()
    return {group: open_names([f"@{group}"], groups) for group, members in groups.items() if asked >= set(members)}
