"""The studies that tare brings: each can be read, each claim has its evidence in the study's own plan, and none of
the papers' claims is missing."""

from pathlib import Path

import pytest
from builders import make_record

from tare.cases.plan import Plan, expand_plan
from tare.errors import BadInput
from tare.execute.catalogue import ANY_MACHINE, LocalCatalogue, open_plan
from tare.records.record import DeviceMemory, HostMemory, Record, Round
from tare.studies.evidence import Evidence
from tare.studies.registry import add_study, all_studies, get_study, study_names
from tare.studies.rules import OverPoints
from tare.studies.study import DeviceKind, Study, read_study
from tare.studies.verdict import judge_claim, judge_study

STUDIES = {study.name: study for study in all_studies()}
# Of the list of claims that the papers make (results of the zoo, of the guard and of the ladder among them).
CLAIMS = range(1, 24)
# What the rungs in C++ do not count.
UNCOUNTED = {"copied-bytes"}
TINY = """
name = "tiny"
title = "t"
paper = "p"
[[claim]]
id = "one"
says = "s"
part = [{ rule = "ratio", of = ["rung=eager"], to = ["rung=compile"], at_least = 1.0 }]
"""


def expanded(plan: Plan) -> list[Record]:
    """A record of three rounds for every case of a plan, as if all were installed on a machine with a GPU."""
    everything = LocalCatalogue(ANY_MACHINE_WITH_GPU)
    rounds = [made_round(i) for i in range(3)]
    cases = expand_plan(open_plan(plan), everything).cases
    assert cases, plan.name
    return [make_record(case, rounds=rounds, id=f"record{i}") for i, case in enumerate(cases)]


def made_round(index: int) -> Round:
    from builders import make_round

    host = HostMemory(peak=100, prepare_peak=0, start=0, method="x")
    device = DeviceMemory(reserved_peak=100, nvml=100)
    return make_round(index, 1e-3 * (1 + index / 1e3), host_memory=host, device_memory=device)


ANY_MACHINE_WITH_GPU = type(ANY_MACHINE)(
    devices=["cuda", "cpu"],
    absent={"cpu": {}, "cuda": {}},
    missing_packages={},
    gpus={},
    environment=ANY_MACHINE.environment,
)


def test_every_claim_of_the_papers_is_in_a_study() -> None:
    numbers = {claim.number for study in STUDIES.values() for claim in study.claims}
    assert numbers == set(CLAIMS)


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_has_the_name_of_its_file_and_a_paper_of_our_sources(study: Study) -> None:
    assert get_study(study.name).name == study.name
    sources = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    assert f"## {study.paper}\n" in sources


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.plans])
def test_a_claim_about_points_finds_them_among_the_cases_of_the_plans(name: str) -> None:
    """Otherwise the study would measure for hours and decide nothing."""
    study = STUDIES[name]
    records = [record for device in study.devices for record in expanded(study.plan(device, quick=False))]
    evidence = Evidence(records=records)
    for claim in study.claims:
        if claim.id in UNCOUNTED:
            continue
        verdict = judge_claim(claim, evidence)
        rules = zip(claim.parts, verdict.parts, strict=True)
        for rule, part in [*rules, *zip((c.rule for c in claim.confounds), verdict.confounds, strict=True)]:
            if isinstance(rule, OverPoints):
                assert part.figure is not None, f"{claim.id}: {part.reason}"
                assert part.figure.points >= rule.fewest, f"{claim.id}: {part.reason}"


@pytest.mark.parametrize(("name", "device"), [(s.name, d) for s in STUDIES.values() for d in s.devices])
def test_a_quick_plan_is_small(name: str, device: DeviceKind) -> None:
    quick, full = (STUDIES[name].plan(device, each) for each in (True, False))
    assert len(expanded(quick)) <= 40
    assert quick.name == f"{full.name}:quick"


def test_nothing_is_measured_before_anything_is() -> None:
    for study in STUDIES.values():
        for claim in judge_study(study, Evidence()).claims:
            assert claim.verdict == "not yet measured"
            assert claim.reason


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "tiny"', 'name = "Tiny!"', "'name' cannot be 'Tiny!'"),
        ('paper = "p"', "", "missing required field `paper`"),
        (
            'says = "s"',
            'says = "s"\nwaits_for = "x"',
            "claim 'one': a claim has either a [[claim.part]], or waits_for",
        ),
        ("at_least = 1.0", "at_least = 1.0, python = '1+1'", "unknown key 'python' in"),
        ("[[claim]]", '[plan.cpu]\nname = "x"\n[[claim]]', "the plan of a study has no name of its own"),
        ("[[claim]]", "[plan.cpu]\n[[claim]]", "a plan has at least one [[grid]] or [[include]]"),
        (
            "[[claim]]",
            "[quick.cpu]\ngrid = {workload = 'mlp'}\n[[claim]]",
            "a quick plan for cpu and none in full",
        ),
        ("[[claim]]", "[plan.tpu]\n[[claim]]", "tpu"),
        ('id = "one"', 'id = "one"\nconfound = [{ rule = "ratio" }]', "a confound has a cause"),
        ('id = "one"', 'id = "one"\ncolour = 1', "unknown key 'colour'"),
        (
            "[[claim]]",
            '[[claim]]\nid = "one"\nsays = "s"\nuntestable = "x"\n[[claim]]',
            "two claims have the id 'one'",
        ),
    ],
)
def test_a_wrong_study_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    assert read_study(path).claims[0].id == "one"
    path.write_text(TINY.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        read_study(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plug_in_adds_a_study_and_cannot_replace_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    (tmp_path / "tiny_studies.py").write_text(
        f"from tare.studies.registry import add_study\nadd_study({str(path)!r})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from tare.studies import registry
    from tare.system.plugins import load_plugins

    monkeypatch.setattr(registry, "_files", dict(registry._files))
    monkeypatch.setenv("TARE_PLUGINS", "tiny_studies")
    load_plugins.cache_clear()
    assert "tiny" in study_names()
    assert get_study("tiny").title == "t"
    with pytest.raises(BadInput, match=r"study 'lstm' of .* is already one of"):
        add_study(tmp_path / "lstm.toml")
    load_plugins.cache_clear()
