"""What scripts write into the documents is what they would write today."""

import runpy
from pathlib import Path

import msgspec

from tare.verbs.explain_files import explain_files
from tare.workloads import all_workloads

SCRIPTS = Path(__file__).parents[2] / "scripts"
RECORDED = Path(__file__).parents[1] / "trace" / "recorded"


def test_the_page_of_workloads_shows_what_there_is() -> None:
    script = runpy.run_path(str(SCRIPTS / "workload_table.py"))
    ours = {name: w for name, w in all_workloads().items() if type(w.definition).__module__.startswith("tare.")}
    assert script["PAGE"].read_text() == script["page"](ours), "run: python scripts/workload_table.py"


def test_the_page_of_the_zoo_shows_the_published_records() -> None:
    script = runpy.run_path(str(SCRIPTS / "zoo_table.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python scripts/zoo_table.py"


def test_the_page_of_the_breakdown_shows_the_published_explanations() -> None:
    script = runpy.run_path(str(SCRIPTS / "breakdown_table.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python scripts/breakdown_table.py"


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
    script = runpy.run_path(str(SCRIPTS / "breakdown_table.py"))
    kept = tmp_path / "kept.json.gz"
    script["keep"](explained(tmp_path, resnet50="vision", lstm="nlp"), kept)
    script["keep"](explained(tmp_path, lstm="nlp", vgg16="vision"), kept)
    found = script["read"](kept)
    assert [one.workload for one in found.explanations] == ["lstm", "resnet50", "vgg16"]
    assert "resnet50" not in script["left"](kept)
    assert "dqn" in script["left"](kept)
    assert "| vision | 2 | 13.6 % | 0.0 % | 86.4 % | 62.8 % | 1.4 % | 35.7 % |" in script["by_domain"](
        "infer", found
    )
    assert "| launch-bound | 3 | 78.2 % | 78.2 % |" in script["findings"]("infer", found)
    row = "| vgg16 | 5.6 ms | 13.6 % | 0.0 % | 86.4 % | dispatch (53%) | launch-bound (78.2 %) |"
    assert row in script["by_workload"]("infer", found)
