"""What scripts write into the documents is what they would write today."""

import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import make_case, make_record, make_round

from tare.commands.explain import explain_files
from tare.records.record import Record
from tare.workloads import all_workloads

TABLES = Path(__file__).parents[2] / "scripts" / "tables"
RECORDED = Path(__file__).parents[1] / "trace" / "recorded"


def test_the_page_of_workloads_shows_what_there_is() -> None:
    script = runpy.run_path(str(TABLES / "workloads.py"))
    ours = {name: w for name, w in all_workloads().items() if type(w.definition).__module__.startswith("tare.")}
    assert script["PAGE"].read_text() == script["page"](ours), "run: python scripts/tables/workloads.py"


def test_the_pages_of_the_zoo_show_the_published_records() -> None:
    script = runpy.run_path(str(TABLES / "zoo.py"))
    assert len(script["PAGES"]) == 2
    for path in script["PAGES"]:
        assert path.read_text() == script["page"](path), "run: python scripts/tables/zoo.py"
    assert script["PICTURE"].read_text() == script["picture"](), "run: python scripts/tables/zoo.py"


def test_a_workload_without_records_is_still_to_come() -> None:
    script = runpy.run_path(str(TABLES / "zoo.py"))
    kept = [make_record(make_case(workload=name, device="cuda")) for name in ("hf_Reformer", "lstm")]
    left = script["still_to_come"]("infer", kept)
    assert "resnet50" in left
    assert not {"hf_Reformer", "lstm"} & left
    assert "llama_decode" in left
    assert "llama_decode" not in script["still_to_come"]("train", kept)


def test_the_page_of_the_breakdown_shows_the_published_explanations() -> None:
    script = breakdown()
    assert script["PAGE"].read_text() == script["page"](), "run: python scripts/tables/breakdown.py"


def test_the_page_of_savings_shows_the_published_records() -> None:
    script = runpy.run_path(str(TABLES / "savings.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python scripts/tables/savings.py"


def breakdown() -> dict[str, Any]:
    return runpy.run_path(str(TABLES / "breakdown.py"))


def explained(folder: Path, **workloads: str) -> Path:
    """What `tare explain --json` says of recorded traces, under these names and in these domains."""
    found = explain_files([str(RECORDED / "resnet50-infer-b1-eager.json.gz")] * len(workloads))
    document = msgspec.to_builtins(found.document())
    for one, (name, domain) in zip(document["explanations"], workloads.items(), strict=True):
        one |= {"case": f"{name}/eager", "workload": name, "domain": domain, "mode": "infer", "rung": "eager"}
    path = folder / "explained.json"
    path.write_bytes(msgspec.json.encode(document))
    return path


def test_the_breakdown_of_the_zoo_grows_by_what_is_explained(tmp_path: Path) -> None:
    script = breakdown()
    kept = tmp_path / "kept.json.gz"
    script["keep"](explained(tmp_path, resnet50="vision", lstm="nlp"), kept)
    script["keep"](explained(tmp_path, lstm="nlp", vgg16="vision"), kept)
    found = script["read"](kept)
    assert [one.workload for one in found.explanations] == ["lstm", "resnet50", "vgg16"]
    assert "resnet50" not in script["pending"](kept, "infer")
    assert "dqn" in script["pending"](kept, "infer")
    assert "| vision | 2 | 13.6 % | 0.0 % | 86.4 % | 62.8 % | 1.4 % | 35.7 % |" in script["by_domain"](
        "infer", found
    )
    assert "| launch-bound | 3 | 85.7 % | 85.7 % |" in script["findings"]("infer", found)
    row = "| vgg16 | 5.6 ms | 13.6 % | 0.0 % | 86.4 % | dispatch (53%) | launch-bound (85.7 %) |"
    assert row in script["by_workload"]("infer", found)


def test_measured_savings_are_compared_with_the_estimates() -> None:
    """An estimate that is a bound may be wrong on the side that it leaves open."""
    script, found = runpy.run_path(str(TABLES / "savings.py")), breakdown()["PublishedFinding"]

    def record(workload: str, step_s: float, rung: str = "eager", precision: str = "fp32") -> Record:
        case = make_case(workload=workload, rung=rung, precision=precision)
        return make_record(case, rounds=[make_round(step_s=step_s)])

    def finding(rule: str, share: float, bound: str = "") -> Any:
        return found(rule=rule, severity="high", saving_share=share, bound=bound)

    promised = {
        "launch-bound": {"lstm": finding("launch-bound", 0.6), "dqn": finding("launch-bound", 0.7)},
        "tf32-off": {name: finding("tf32-off", 0.8, "at most") for name in ("vgg16", "alexnet")},
    }
    remedied = [record("lstm", 9.0), record("lstm", 1.0, rung="cudagraph"), record("vgg16", 3.0, precision="tf32")]
    savings = script["savings"](
        promised, remedied, [record("vgg16", 4.0), record("lstm", 2.0), record("alexnet", 1.0)]
    )
    assert [(one.workload, one.estimated, one.measured, one.holds) for one in savings] == [
        ("lstm", 0.6, pytest.approx(0.5), True),
        ("vgg16", 0.8, pytest.approx(0.25), True),
    ]
    said = script["summary"](promised, savings, {"alexnet", "vgg16"})
    assert "| launch-bound | cudagraph, fp32 | 1 of 2 | 60.0 % | 50.0 % | 1 of 1 |" in said
    assert said.count("| tf32-off | eager, tf32 | 1 of 2 | 80.0 % | 25.0 % | 1 of 1 |") == 1
    assert "| tf32-off, idle for 5 % at most | eager, tf32 | 1 of 2 | 80.0 % | 25.0 % | 1 of 1 |" in said
    assert not script["Saving"]("launch-bound", "lstm", 1.0, 0.8, 0.3, "").holds
    assert not script["Saving"]("tf32-off", "lstm", 1.0, 0.1, 0.3, "at most").holds


def test_remedies_that_have_not_run_yet_are_left_out(tmp_path: Path) -> None:
    script = runpy.run_path(str(TABLES / "savings.py"))
    assert len(script["remedied"]([script["MEASURED"], tmp_path / "none.json.gz"])) == 131
    assert all(isinstance(one, Record) for one in script["remedied"](script["REMEDIED"]))


def test_the_workloads_of_a_finding_are_named_for_its_remedy() -> None:
    promised = runpy.run_path(str(TABLES / "savings.py"))["promises"]()
    assert "llama_decode" in promised["launch-bound"]
    assert "resnet152" in promised["tf32-off"]
