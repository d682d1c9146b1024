"""The command line as a user meets it: output, exit codes, one-line errors."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import tare
from typer.testing import CliRunner

from tare.cli.app import VERBS, app

RUN = ("run", "mlp", "--rung", "eager,torchscript", "--device", "cpu", "--rounds", "2", "--budget", "0.6")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one small run in it."""
    folder = tmp_path_factory.mktemp("home")
    done = tare(folder, *RUN, "--mode", "infer,train", "--json")
    assert done.returncode == 0, done.stderr
    (folder / "run.json").write_text(done.stdout)
    return folder


@pytest.fixture(scope="module")
def document(home: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((home / "run.json").read_text())
    return loaded


def test_run_prints_one_json_document_with_the_records(document: dict[str, Any]) -> None:
    cases = [(r["case"]["rung"], r["case"]["mode"]) for r in document["records"]]
    assert cases == [(rung, mode) for mode in ("infer", "train") for rung in ("eager", "torchscript")]
    for record in document["records"]:
        assert record["parity"]["status"] == "same"
        assert len(record["rounds"]) == 2
        assert record["environment"]["software"]["torch"]


def test_show_gives_the_ladders_of_the_newest_run(home: Path) -> None:
    done = tare(home, "show")
    assert done.returncode == 0
    assert done.stdout.count("x eager") == 2
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_columns_on_request(home: Path) -> None:
    done = tare(home, "show", "--columns", "throughput,p50,spread")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("throughput") == done.stdout.count("p50") == 2
    assert re.search(r"\d/s", done.stdout)
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    for verb in (["show"], ["run", "mlp"]):
        wrong = tare(home, *verb, "--columns", "p98")
        assert wrong.returncode == 2
        assert len(wrong.stderr.splitlines()) == 1
        assert "unknown column 'p98'" in wrong.stderr
        assert "p99, prepare, spread, tare, throughput, tokens" in wrong.stderr
    rerun = tare(home, *RUN, "--recorded", "--columns", "throughput")
    assert rerun.returncode == 0, rerun.stderr
    assert "throughput" in rerun.stdout


def test_show_finds_by_field_key_and_id(home: Path, document: dict[str, Any]) -> None:
    one = document["records"][0]
    torch = f"torch={one['environment']['software']['torch']}"
    for terms in (["rung=eager", "mode=infer"], [one["id"]], ["width=128", "rung=eager", "mode=infer", torch]):
        found = json.loads(tare(home, "show", *terms, "--json").stdout)["records"]
        assert [record["id"] for record in found] == [one["id"]]


def test_terms_choose_among_the_records_of_a_file(home: Path, document: dict[str, Any], tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    assert tare(home, "export", "-o", str(kept)).returncode == 0
    elsewhere = tmp_path / "empty home"
    wanted = [r["id"] for r in document["records"] if r["case"]["mode"] == "train"]
    found = json.loads(tare(elsewhere, "show", str(kept), "mode=train", "--json").stdout)["records"]
    assert sorted(record["id"] for record in found) == sorted(wanted)
    one = tare(elsewhere, "show", str(kept), wanted[0])
    assert f"record {wanted[0]}" in one.stdout
    nothing = tare(elsewhere, "show", str(kept), "rung=vendor")
    assert nothing.returncode == 2
    assert "no record matches" in nothing.stderr


def test_what_is_wrong_in_a_plan_is_not_hidden_by_a_flag(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[options]\nrounds = "a"\n[[grid]]\nworkload = "mlp"\n')
    done = tare(home, "run", str(plan), "--quick")
    assert done.returncode == 2
    assert "rounds" in done.stderr


def test_list_gives_arrays(home: Path) -> None:
    workloads = json.loads(tare(home, "list", "workloads", "--json").stdout)
    assert {"resnet50", "lstm", "mnist_cnn", "mlp"} <= {entry["workload"] for entry in workloads}
    records = json.loads(tare(home, "list", "records", "mode=train", "--json").stdout)
    assert len(records) == 2


def test_list_findings_says_what_each_sees(home: Path) -> None:
    (one,) = json.loads(tare(home, "list", "findings", "hidden-sync", "--json").stdout)
    assert one["sees"].startswith("A value of at most 1 KiB is fetched")
    shown = tare(home, "list", "findings").stdout
    assert "launch-bound" in shown
    wrong = tare(home, "list", "findings", "hiden-sync")
    assert (wrong.returncode, "did you mean 'hidden-sync'" in wrong.stderr) == (2, True)


def test_list_rungs_says_why_one_is_missing_and_how_to_get_it(home: Path) -> None:
    rungs = {entry["rung"]: entry for entry in json.loads(tare(home, "list", "rungs", "--json").stdout)}
    assert rungs["eager"]["available"].startswith("on ")
    graph = rungs["cudagraph"]
    assert graph["available"] == "on cuda" or (graph["reason"] and graph["remedy"])
    assert rungs["compile:max-autotune"]["skipped_by_default"]


@pytest.mark.parametrize("format", ["json", "csv", "markdown", "pyperf"])
def test_export_to_a_file(home: Path, tmp_path: Path, format: str) -> None:
    target = tmp_path / "out"
    assert tare(home, "export", "--format", format, "-o", str(target)).returncode == 0
    assert "torchscript" in target.read_text()


@pytest.mark.full
def test_doctor_looks_at_the_machine(home: Path) -> None:
    found = json.loads(tare(home, "doctor", "--json").stdout)
    assert "cpu" in found["devices"]
    assert {check["name"] for check in found["checks"]} >= {"CPU governor", "CPU load", "host memory"}


@pytest.mark.full
def test_impossible_combinations_are_skipped_with_the_reason(home: Path) -> None:
    done = tare(home, *RUN, "--quick", "--precision", "fp32,tf32", "--feed", "device,pinned", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert len(document["records"]) == 2
    assert len(document["skipped"]) == 6
    assert any("TF32" in skip["reason"] for skip in document["skipped"])


BAD = [
    (("run", "resnet5"), "resnet50"),
    (("run", "resnet5"), "names, see `tare list workloads`)"),
    (("run", "public_image_generator1"), "in the command line; 'pytorch_stargan' represents it here"),
    (("list", "workloads", "detectron2_maskrcnn"), "'detectron2_maskrcnn_r_50_fpn' represents it here"),
    (("show", "workload", "public_image_generator2"), "'DALLE2_pytorch' represents it here"),
    (("run", "mlp", "--rung", "eagr"), "eager"),
    (("run", "mlp", "--mode", "training"), "infer, train"),
    (("run", "mlp", "--precision", "fp8"), "amp-bf16"),
    (("run", "mlp", "--batch", "many"), "--batch takes auto or positive whole numbers, not 'many'"),
    (("run", "mlp", "--batch", "0"), "--batch"),
    (("run", "mlp", "--batch", "9" * 5000), "--batch"),
    (("run", "mlp", "--batch", ","), "--batch names nothing"),
    (("run", "mlp", "--rung", ","), "--rung names nothing"),
    (("run", "mlp", "--rung", ""), "--rung names nothing"),
    (("run", "mlp", "--size", "width=,"), "--size width names nothing"),
    (("run", "mlp", "--threads", "100000"), "4096"),
    (("compare", "a", "b", "--rung", ","), "--rung names nothing"),
    (("compare", "a", "b", "--metric", ""), "--metric names nothing"),
    (("explain", "mlp", "--rung", ","), "--rung names nothing"),
    (("explain", "mlp", "--against", ""), "--against names nothing"),
    (("show", "--store", ""), "--store names nothing"),
    (("show", "--store", "~no-such-user-here/y.db"), "home directory"),
    (("show", "--store", "a" * 300), "File name too long"),
    (("run", "mlp", "--size", "resolution=7"), "depth"),
    (("run", "mlp", "--size", "width"), "NAME=NUMBER"),
    (("run", "mlp", "--rounds", "0"), "rounds"),
    (("run", "mlp", "--isolation", "thread"), "valid: fork, spawn"),
    (("run", "mlp", "--memory", "0"), "--memory"),
    (("run", "mlp", "--optimizer", "adam"), "for training"),
    (("run", "mlp", "--device", "tpu"), "cuda"),
    (("run", "mlp", "--precision", "tf32", "--device", "cpu"), "TF32"),
    (("run", "nowhere.toml"), "nowhere.toml"),
    (("run", "a.toml", "mlp"), "one plan"),
    (("run", "a.toml", "--batch", "1"), "--batch"),
    (("run", "mlp", "--frobnicate"), "--frobnicate"),
    (("run",), "argument"),
    (("list", "things"), "workloads"),
    (("list", "rungs", "eagr"), "eager"),
    (("list", "groups", "@nlpp"), "did you mean '@nlp'?"),
    (("list", "records", "nowhere"), "no record matches nowhere"),
    (("show", "mode=training"), "infer, train"),
    (("export", "nowhere"), "no record matches nowhere"),
    (("export", "--format", "csv", "--json"), "two formats"),
    (("show", "colour=red"), "rung"),
    (("show", "nothing_like_it"), "nothing_like_it"),
    (("export", "--format", "xml"), "markdown"),
    (("show", "--store", "/no/such/folder/records.db"), "/no/such/folder"),
    (("frobnicate",), "frobnicate"),
]


@pytest.mark.parametrize(("args", "named"), BAD, ids=[" ".join(args)[:60] for args, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(home: Path, args: tuple[str, ...], named: str) -> None:
    done = tare(home, *args)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("tare: ")
    assert named in done.stderr


def test_help_groups_the_verbs_and_imports_nothing_heavy() -> None:
    frameworks = {"jax", "onnx", "onnxruntime"}
    code = (
        "import sys; sys.argv = ['tare', '--help']\n"
        "from tare.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"heavy = {frameworks} | {{'torch', 'numpy', 'scipy', 'sqlalchemy', 'rich.table', 'psutil'}}\n"
        "heavy &= set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "HEAVY []" in done.stdout
    panels = [line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert panels == ["Options:", "Measure:", "Explain:", "Guard:", "Records:", "Machine:", "Team:"]
    assert "  tare run mnist_cnn " in done.stdout, "examples"


@pytest.mark.parametrize("verb", [*(verb for verbs in VERBS.values() for verb in verbs), "baseline set"])
def test_help_names_values_and_no_python_types(verb: str) -> None:
    text = CliRunner().invoke(app, [*verb.split(), "--help"]).stdout
    assert text.startswith(f"Usage: tare {verb} ")
    assert not re.search(r"<(str|int|float|path|file|list)\b", text)
    assert "]...]..." not in text
    assert "...}..." not in text


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tare run mnist", ["mnist_cnn"]),
        ("tare run @smo", ["@smoke"]),
        ("tare run mlp --rung eager,cudag", ["eager,cudagraph"]),
        ("tare run mlp --mode tr", ["train"]),
        ("tare list form", ["formats"]),
    ],
)
def test_the_shell_completes_names(tmp_path: Path, line: str, offered: list[str]) -> None:
    words = str(len(line.split()) - 1)
    done = tare(tmp_path, _TARE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=words)
    assert done.stdout.split() == offered


def test_lists_hold_every_name_whole_off_a_terminal(home: Path, document: dict[str, Any]) -> None:
    for kind, names in {
        "workloads": [entry["workload"] for entry in json.loads(tare(home, "list", "workloads", "--json").stdout)],
        "records": [record["id"] for record in document["records"]],
        "formats": ["csv", "junit", "svg"],
    }.items():
        lines = tare(home, "list", kind).stdout.splitlines()
        assert {line.split()[0] for line in lines[1:]} >= set(names)


def test_the_c_locale_gets_ascii(home: Path) -> None:
    shown = tare(home, "show", LC_ALL="C").stdout
    assert shown.isascii()
    assert "mlp - infer - cpu" in shown


def test_the_data_folder_must_be_usable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for place in (file / "home", Path("~no-such-user-here/x")):
        done = tare(place, "show")
        assert done.returncode == 2
        assert "TARE_HOME" in done.stderr
        assert done.stderr.count("\n") == 1
