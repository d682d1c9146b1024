"""tare study on the command line: list, run, resume, show."""

import json
from pathlib import Path

import pytest
from commandline import tare

STUDY = """
name = "tiny"
title = "A tiny study"
paper = "Nobody's paper"

[plan.cpu]
options = { rounds = 3, budget = 0.9 }
grid = { workload = "mlp", rung = "eager", batch = [1, 256], smoke = true }

[quick.cpu]
grid = { workload = "mlp", rung = "eager", batch = [1, 256], smoke = true }

[[claim]]
id = "batch"
device = "any"
says = "A batch of 256 takes at most ten thousand times as long as one of 1."
paper = "< 10000x"
part = [
  { rule = "ratio", of = ["rung=eager", "batch=256"], to = ["batch=1"], differ = ["batch"], at_most = 10000.0 },
]

[[claim]]
id = "cannot"
device = "any"
says = "Eager cannot run it."
part = [{ rule = "fails", of = ["rung=eager"] }]
"""


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY)
    return str(path)


def test_a_quick_run_of_a_study_measures_and_decides_nothing(tmp_path: Path, study: str) -> None:
    home = tmp_path / "home"
    done = tare(home, "study", "run", study, "--device", "cpu", "--quick", "--budget", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["run"]["planned"] == 2
    assert [record["tags"] for record in document["run"]["records"]] == [{"study": "tiny"}] * 2
    claims = {claim["id"]: claim for claim in document["study"]["claims"]}
    assert [claim["verdict"] for claim in claims.values()] == ["not yet measured"] * 2
    assert claims["batch"]["parts"][0]["figure"]["rounds"] == 1
    # The records of a quick run are shown where they are asked for, and are no part of the study.
    shown = tare(home, "study", "show", study, "--quick", "--json")
    assert json.loads(shown.stdout)["claims"] == document["study"]["claims"]
    full = tare(home, "study", "show", study)
    assert full.returncode == 0, full.stderr
    assert "no record of rung=eager" in full.stdout
    assert "measure: tare study run tiny (--quick for a first look)" in full.stdout


@pytest.mark.full
def test_a_full_run_gives_verdicts_and_is_resumed(tmp_path: Path, study: str) -> None:
    home = tmp_path / "home"
    done = tare(home, "study", "run", study)
    assert done.returncode == 0, done.stderr
    assert "2 claims: 1 confirmed, 1 refuted" in done.stdout
    again = tare(home, "study", "run", study, "--resume", "--json")
    assert again.returncode == 0, again.stderr
    runs = {record["run"] for record in json.loads(again.stdout)["run"]["records"]}
    assert runs == {json.loads(again.stdout)["run"]["run"]}
    exported = tare(home, "export", "tag.study=tiny", "-o", str(tmp_path / "tiny.json"))
    assert exported.returncode == 0, exported.stderr
    shown = tare(tmp_path / "other", "study", "show", study, "--records", str(tmp_path / "tiny.json"))
    assert "2 claims: 1 confirmed, 1 refuted" in shown.stdout


def test_the_list_names_every_study(tmp_path: Path) -> None:
    listed = tare(tmp_path, "study", "list", "--json")
    names = [entry["study"] for entry in json.loads(listed.stdout)]
    assert names[:2] == ["abstraction", "lstm"]
    shown = tare(tmp_path, "study", "list").stdout
    assert all(name in shown for name in names)


@pytest.mark.full
def test_a_dry_run_names_the_cases(tmp_path: Path, study: str) -> None:
    planned = tare(tmp_path, "study", "run", study, "--device", "cpu", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "2 cases in 2 ladders, 3 rounds each" in planned.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nobody"), "unknown study 'nobody' (valid: abstraction, "),
        (("show", "absent.toml"), "no study at absent.toml"),
        (("run", "coverage"), "coverage has no plan to run; measure: tare coverage @zoo --json > FILE, then: "),
        (("run", "regressions"), "regressions has no plan to run; none of its claims can be measured yet"),
        (("run", "lstm", "--device", "tpu"), "--device of a study is cpu or cuda, not 'tpu'"),
        (("run", "lstm", "--dry-run", "--resume"), "--dry-run does not know what an interrupted run has measured"),
        (
            ("show", "lstm", "--quick", "--records", "x.json"),
            "--quick is for the records of `tare study run --quick`",
        ),
        (("show", "lstm", "--records", "x.json"), "cannot read x.json"),
        ((), "tare study takes a command: list, run, show"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = tare(tmp_path, "study", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tare: {message}")
    assert done.stderr.count("\n") == 1


def test_published_records_give_verdicts(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "results" / "zoo" / "h200-compile-three-rounds.json.gz"
    done = tare(tmp_path, "study", "show", "compilers", "--records", str(file), "--json")
    assert done.returncode == 0, done.stderr
    verdicts = {claim["id"]: claim["verdict"] for claim in json.loads(done.stdout)["claims"]}
    assert verdicts["infer-faster"] == "confirmed"
    assert verdicts["infer-host-memory"] == "refuted"
    assert verdicts["train-faster"] == "not yet measured"
