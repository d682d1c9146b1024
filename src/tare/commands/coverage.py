"""`tare coverage`: each workload runs under interception in a worker of its own. Nothing is timed."""

from collections.abc import Sequence

from tare.cases.options import DEFAULT_ISOLATION, Options
from tare.cases.plan import make_plan, open_names
from tare.execute.catalogue import open_plan
from tare.execute.session import open_plan_session
from tare.protocol.jobs import CoverJob, RegistryJob
from tare.protocol.messages import Covered, Registered
from tare.report.coverage import Coverage, make_coverage
from tare.report.progress import Progress
from tare.workloads.groups import all_groups

TIMEOUT_S = 300.0


def cover_workloads(targets: Sequence[str], device: str, show_progress: bool = True) -> Coverage:
    """What the targets (workloads and groups) cover at smoke size, in eager, at inference and in training."""
    # With one thread the operators are the same, and the machine stays usable.
    grid = {"rung": "eager", "mode": ["infer", "train"], "device": device, "threads": 1, "smoke": True}
    plan = open_plan(make_plan({"grid": [{"workload": list(targets), **grid}]}, "the command line"))
    options = Options(timeout=TIMEOUT_S, isolation=DEFAULT_ISOLATION)
    with (
        Progress(show_progress) as progress,
        open_plan_session(plan, options.isolation, progress.stage_changed) as (executor, _, _, expansion),
    ):
        registered = executor.request(RegistryJob(), Registered, options)
        answers = []
        for number, case in enumerate(expansion.cases, 1):
            progress.stage_changed(f"{number} of {len(expansion.cases)}: {case.workload} {case.mode}")
            answer = executor.ask(CoverJob(case=case), Covered, options)
            answers.append((case.workload, case.mode, answer))
    # The option may be "auto" or "all".
    devices = " and ".join(dict.fromkeys(case.device for case in expansion.cases))
    # Part of a group has no coverage to compare.
    asked, groups = set(plan.grids[0].workload), all_groups()
    complete = {group: open_names([f"@{group}"], groups) for group in groups if asked >= set(groups[group])}
    return make_coverage(registered, devices, answers, expansion.skipped, complete)
