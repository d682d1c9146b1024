"""A study: what is measured, and the claims of a paper with the rules that decide them. One TOML file each.

docs/studies.md describes the format.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tare.cases.plan import Plan, make_plan
from tare.cases.tables import convert_table, read_toml
from tare.errors import BadInput
from tare.studies.rules import StudyRule, make_rule

DeviceKind = Literal["cpu", "cuda"]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9\-]*\Z", max_length=60)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
Tables = list[dict[str, Any]]
# The tag of the records that `tare study run` measures, by which a user can export them.
TAG = "study"


class StudyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A study as it is written. `plan` and `quick` have a plan for a kind of device; `measure` is the command that
    measures what no plan can."""

    name: Name
    title: Text
    paper: Text
    measure: str = ""
    plan: dict[DeviceKind, dict[str, Any]] = {}
    quick: dict[DeviceKind, dict[str, Any]] = {}
    claim: Annotated[Tables, msgspec.Meta(min_length=1)]


class ClaimDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as it is written. Its parts must all hold. A claim without any is open because of
    `waits_for`, or cannot be tested because of `untestable`."""

    id: Name
    number: int = 0
    says: Text
    paper: str = ""
    device: Literal["cpu", "cuda", "any"] = "cuda"
    part: Tables = []
    confound: Tables = []
    waits_for: str = ""
    untestable: str = ""
    note: str = ""


class Confound(msgspec.Struct, frozen=True, kw_only=True):
    """Another explanation of the paper's figure, and the rule that tests it on its own."""

    cause: str
    rule: StudyRule


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """`number` is that of a list of claims that a paper's claims were collected in; `device` the kind of device
    that the paper measured."""

    id: str
    number: int
    says: str
    paper: str
    device: Literal["cpu", "cuda", "any"]
    parts: list[StudyRule]
    confounds: list[Confound]
    waits_for: str = ""
    untestable: str = ""
    note: str = ""


class Study(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    paper: str
    measure: str
    plans: dict[DeviceKind, Plan]
    quick_plans: dict[DeviceKind, Plan]
    claims: list[Claim]

    @property
    def devices(self) -> list[DeviceKind]:
        return list(self.plans)

    @property
    def next_step(self) -> str:
        """How to measure what the study needs."""
        if self.plans:
            return f"measure: tare study run {self.name} (--quick for a first look)"
        if self.measure:
            return f"measure: {self.measure}, then: tare study show {self.name} --records FILE"
        return "none of its claims can be measured yet"

    def all_plans(self, quick: bool) -> list[Plan]:
        """By the names of these, a store knows the runs of the study. A quick run is never mixed with the others,
        even where it has the same cases."""
        return [self.plan(device, quick) for device in self.plans]

    def plan(self, device: DeviceKind, quick: bool) -> Plan:
        """BadInput where the study has none."""
        if quick and device in self.quick_plans:
            return self.quick_plans[device]
        if device in self.plans:
            full = self.plans[device]
            return msgspec.structs.replace(full, name=_run_name(self.name, device, quick))
        if self.plans:
            raise BadInput(f"{self.name} has no plan for {device}; it has one for {', '.join(self.plans)}")
        raise BadInput(f"{self.name} has no plan to run; {self.next_step}")


def read_study(path: Path) -> Study:
    """The study in a TOML file; BadInput says in one line what is wrong in it."""
    return make_study(read_toml(path, "study"), str(path))


def make_study(document: Mapping[str, Any], where: str) -> Study:
    written = convert_table(document, StudyDocument, where)
    for device in written.quick:
        if device not in written.plan:
            raise BadInput(f"{where}: there is a quick plan for {device} and none in full")
    claims = [_make_claim(table, f"{where}, claim {i}") for i, table in enumerate(written.claim, 1)]
    names = [claim.id for claim in claims]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{where}: two claims have the id '{twice}'")
    return Study(
        name=written.name,
        title=written.title,
        paper=written.paper,
        measure=written.measure,
        plans={
            device: _make_plan(plan, device, _run_name(written.name, device, False), where)
            for device, plan in written.plan.items()
        },
        quick_plans={
            device: _make_plan(plan, device, _run_name(written.name, device, True), where)
            for device, plan in written.quick.items()
        },
        claims=claims,
    )


def _run_name(study: str, device: str, quick: bool) -> str:
    return f"study:{study}:{device}{':quick' if quick else ''}"


def _make_plan(table: Mapping[str, Any], device: DeviceKind, name: str, where: str) -> Plan:
    """The plan with the device in every grid that names none."""
    if "name" in table:
        raise BadInput(f"{where}: the plan of a study has no name of its own")
    named: dict[str, Any] = {"name": name, **table}
    for kind in ("grid", "include"):
        grids = named.get(kind, [])
        grids = [grids] if isinstance(grids, Mapping) else grids
        if isinstance(grids, list) and grids:
            named[kind] = [{"device": device, **grid} if isinstance(grid, Mapping) else grid for grid in grids]
    return make_plan(named, f"{where}, the plan for {device}")


def _make_claim(table: Mapping[str, Any], where: str) -> Claim:
    shown = f"{where[: where.rindex(', ')]}, claim '{table['id']}'" if isinstance(table.get("id"), str) else where
    written = convert_table(table, ClaimDocument, shown[:400])
    if sum(map(bool, (written.part, written.waits_for, written.untestable))) != 1:
        raise BadInput(f"{shown}: a claim has either a [[claim.part]], or waits_for, or untestable")
    confounds = []
    for confound in written.confound:
        if not isinstance(cause := confound.get("cause"), str) or not cause:
            raise BadInput(f"{shown}: a confound has a cause")
        rule = {key: value for key, value in confound.items() if key != "cause"}
        confounds.append(Confound(cause=cause, rule=make_rule(rule, shown)))
    return Claim(
        id=written.id,
        number=written.number,
        says=written.says,
        paper=written.paper,
        device=written.device,
        parts=[make_rule(part, shown) for part in written.part],
        confounds=confounds,
        waits_for=written.waits_for,
        untestable=written.untestable,
        note=written.note,
    )
