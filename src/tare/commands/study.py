"""What the verbs of `tare study` do: list the studies, measure one, and judge its claims."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tare.cases.plan import Plan
from tare.commands.run import DryRun, RunResult, Session
from tare.errors import BadInput
from tare.store.database import Store
from tare.studies.evidence import Evidence, read_evidence, stored_evidence
from tare.studies.registry import all_studies, get_study
from tare.studies.study import TAG, DeviceKind, Study
from tare.studies.verdict import StudyVerdict, judge_study


def list_studies() -> list[dict[str, Any]]:
    return [
        {
            "study": study.name,
            "paper": study.paper,
            "claims": len(study.claims),
            "devices": study.devices,
            "measure": study.measure,
            "title": study.title,
        }
        for study in all_studies()
    ]


class StudySession:
    """Measures the plan of a study. A run that was interrupted continues as one of `tare run` does."""

    def __init__(
        self, name: str, device: str, quick: bool, options: dict[str, Any], store: str | None, show_progress: bool
    ) -> None:
        self._study, self._quick, self._store = get_study(name), quick, store
        plan = _choose_plan(self._study, device, quick)
        self._session = Session(plan, options, quick, store, show_progress, tags={TAG: self._study.name})

    def run(self, resume: bool) -> RunResult:
        return self._session.run(resume)

    def dry_run(self) -> DryRun:
        return self._session.dry_run()

    def verdict(self) -> StudyVerdict:
        """Of all that runs of the study have measured, this one included."""
        with Store(self._store, reading=True) as opened:
            return judge_study(self._study, stored_evidence(self._study, self._quick, opened))


def _choose_plan(study: Study, device: str, quick: bool) -> Plan:
    kinds: dict[str, DeviceKind] = {"cpu": "cpu", "cuda": "cuda"}
    if device == "auto":
        from tare.measure.devices import device_types

        offered = [kind for kind in study.devices if kind in device_types()]
        device = offered[-1] if offered else "cpu"
    if device not in kinds:
        raise BadInput(f"--device of a study is cpu or cuda, not '{device[:40]}'")
    return study.plan(kinds[device], quick)


def show_study(name: str, files: Sequence[Path], quick: bool, store: str | None) -> StudyVerdict:
    """The verdicts from records in files, or from what runs of the study have left in the store."""
    study = get_study(name)
    if files:
        if quick:
            raise BadInput("--quick is for the records of `tare study run --quick`, not for --records")
        return judge_study(study, read_evidence(files))
    with Store(store, reading=True) as opened:
        evidence = stored_evidence(study, quick, opened) if study.plans else Evidence(where=opened.where)
    return judge_study(study, evidence)
