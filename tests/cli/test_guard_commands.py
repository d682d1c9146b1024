"""The guard's verbs as a user meets them: output, exit codes, one-line errors. Nothing here measures."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from builders import ENVIRONMENT, make_case, make_record
from commandline import tare

from tare.cli.check import parse_variables
from tare.errors import BadInput
from tare.report.formats.json import records_json
from tare.store.database import Store
from tare.store.journal import begin

STEADY = [1e-3 * n for n in (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.002, 0.998)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs, the second 20 % slower on one of two rungs; and a file from another machine."""
    folder = tmp_path_factory.mktemp("home")
    store = Store(str(folder / "records.db"))
    for day, factor in ((1, 1.0), (2, 1.2)):
        journal = begin(store, "night", f"mark{day}", [])
        for rung in ("eager", "compile"):
            steps = [s * (factor if rung == "eager" else 1.0) for s in STEADY]
            created = f"2026-01-0{day}T00:00:00+00:00"
            journal.add_record(
                make_record(make_case(rung=rung), steps, id=f"{rung}{day}", run=journal.run, created=created)
            )
    store.close()
    elsewhere = msgspec.structs.replace(ENVIRONMENT, machine={"cpu": "another"})
    (folder / "other.json").write_text(records_json([make_record(make_case(), STEADY, environment=elsewhere)]))
    (folder / "plan.toml").write_text('[[grid]]\nworkload = ["mlp"]\nrung = ["eager"]\n')
    return folder


def test_compare_finds_the_slower_rung_and_exits_with_1(home: Path) -> None:
    done = tare(home, "compare", "newest~1", "newest", "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    verdicts = {
        case["case"].split("/")[1]: next(c["verdict"] for c in case["changes"] if c["metric"] == "gross")
        for case in report["cases"]
    }
    assert verdicts == {"eager": "slower", "compile": "same"}
    only = tare(home, "compare", "newest~1", "newest", "--rung", "compile")
    assert only.returncode == 0
    assert "no regression in 1 case" in only.stdout
    assert max(len(line) for line in only.stdout.splitlines()) <= 100


def test_compare_refuses_another_machine_unless_forced(home: Path) -> None:
    other = str(home / "other.json")
    refused = tare(home, "compare", other, "newest")
    assert refused.returncode == 2
    assert "machine.cpu: another against test-cpu" in refused.stderr
    environment = msgspec.structs.replace(ENVIRONMENT, machine={"cpu": "x\x1b[2Jy"})
    (home / "hostile.json").write_text(records_json([make_record(make_case(), STEADY, environment=environment)]))
    hostile = tare(home, "compare", str(home / "hostile.json"), "newest")
    assert "machine.cpu: x\ufffd[2Jy against test-cpu" in hostile.stderr
    forced = tare(home, "compare", other, "newest", "--force")
    assert forced.returncode == 1
    assert "not comparable, and forced: machine.cpu" in forced.stdout


def test_baselines_are_set_listed_shown_and_removed(home: Path) -> None:
    assert "2 records" in tare(home, "baseline", "set", "before", "newest~1").stdout
    assert [entry["name"] for entry in json.loads(tare(home, "baseline", "list", "--json").stdout)] == ["before"]
    shown = json.loads(tare(home, "baseline", "show", "before", "--json").stdout)
    assert {record["id"] for record in shown["records"]} == {"eager1", "compile1"}
    assert tare(home, "compare", "before", "newest").returncode == 1
    assert tare(home, "baseline", "remove", "before").returncode == 0
    assert json.loads(tare(home, "baseline", "list", "--json").stdout) == []


def test_a_report_goes_to_a_file_whole(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    done = tare(home, "compare", "newest~1", "newest", "--format", "markdown", "-o", str(out))
    assert done.returncode == 1
    assert done.stdout == ""
    assert out.read_text().startswith("## ❌ ")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_several_reports_are_written_in_one_go(home: Path, tmp_path: Path) -> None:
    markdown, junit = tmp_path / "report.md", tmp_path / "report.xml"
    formats = ("--format", f"markdown={markdown}", f"--format=junit={junit}")
    done = tare(home, "compare", "newest~1", "newest", *formats)
    assert done.returncode == 1, done.stderr
    assert "slower" in done.stdout, "standard output is free for the terminal's view"
    assert markdown.read_text().startswith("## ❌ ")
    assert junit.read_text().startswith("<?xml")
    assert str(tmp_path) not in markdown.read_text(), "reproducing it would overwrite the files"
    also = tare(home, "compare", "newest~1", "newest", "--json", "--format", f"github={tmp_path / 'notes'}")
    assert json.loads(also.stdout)["cases"]
    assert (tmp_path / "notes").read_text().startswith("::")
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "report.xml", "notes"}


def test_a_plain_report_goes_to_a_file_as_well(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.txt"
    done = tare(home, "compare", "newest~1", "newest", "-o", str(out))
    assert (done.returncode, done.stdout) == (1, "")
    assert "slower" in out.read_text()
    assert max(map(len, out.read_text().splitlines())) <= 100


def test_a_comparison_is_reproduced_with_all_its_options(home: Path) -> None:
    options = ("--rung", "eager", "--metric", "gross", "--force", "--format", "markdown")
    shown = tare(home, "compare", "newest~1", "newest", *options).stdout
    assert f"tare compare 'newest~1' newest {' '.join(options)}" in shown


BAD = [
    (("check", "PLAN", "--baseline", "x", "--isolation", "foo"), "fork, spawn"),
    (("compare", "newest~1"), "argument"),
    (("compare", "nonsense", "newest"), "nonsense"),
    (("compare", "", "newest"), "an empty selector"),
    (("compare", "newest", " "), "an empty selector"),
    (("baseline", "set", "x", ""), "an empty selector"),
    (("compare", "newest~1", "newest", "--metric", "gros"), "gross"),
    (("compare", "newest~1", "newest", "--format", "xml"), "junit"),
    (("compare", "newest~1", "newest", "--format", "xml=report.xml"), "junit"),
    (("compare", "newest~1", "newest", "--format", "junit="), "junit=FILE"),
    (("compare", "newest~1", "newest", "--format", "junit", "--format", "json"), "NAME=FILE"),
    (("compare", "newest~1", "newest", "--format", "junit=/tmp/x", "--format", "json=/tmp/x"), "two options name"),
    (("compare", "newest~1", "newest", "--format", "junit=/no/such/x"), "no folder /no/such"),
    (("check", "PLAN", "--baseline", "x", "--max-minutes", "-1"), "--max-minutes"),
    (("compare", "newest~1", "newest", "--rung", "jax"), "unknown rung 'jax' in --rung (valid: "),
    (("compare", "newest~1", "newest", "--case", "nothing/"), "matches --rung and --case (one of them is "),
    (("compare", "newest~1", "newest", "--thresholds", "none.toml"), "none.toml"),
    (("compare", "newest", "rung=eager torch=1.0"), "torch=1.0"),
    (("baseline", "set", "a b"), "not a valid baseline name"),
    (("baseline", "set", "x", "OTHER"), "tare import its file first"),
    (("baseline", "set", "x", "rung=eager OTHER"), "tare import its file first"),
    (("compare", "newest", "other.json rung=eager"), "cannot read other.json"),
    (("baseline", "show", "nobody"), "nobody"),
    (("baseline", "remove", "nobody"), "nobody"),
    (("baseline", "frobnicate"), "frobnicate"),
    (("baseline",), "takes a command: set, list, show, remove"),
    (("check", "none.toml", "--baseline", "x"), "none.toml"),
    (("check", "PLAN"), "--baseline"),
    (("check", "mpl", "--baseline", "x"), "mlp"),
    (("check", "PLAN", "--baseline", "x", "--rung", "eager"), "--rung is for workloads"),
    (("check", "mlp", "--baseline", "nobody"), "unknown baseline 'nobody'"),
    (("check", "PLAN", "--baseline", "nobody"), "unknown baseline 'nobody'"),
    (
        ("check", "PLAN", "--baseline-env", "A=1", "--metric", "energy,device_peak"),
        "on a CPU has energy, device_peak",
    ),
    (("check", "PLAN", "--baseline", ""), "unknown baseline ''"),
    (("check", "PLAN", "--baseline-python", "/no/such/python"), "/no/such/python"),
    (("check", "PLAN", "--baseline-env", "X"), "NAME=VALUE"),
    (("check", "PLAN", "--baseline", "x", "--format", "pdf"), "markdown"),
    (("check", "PLAN", "--baseline", "x", "--confirm", "-1"), "--confirm"),
    (("check", "PLAN", "--baseline", "x", "--rounds", "0"), "rounds"),
    (("calibrate", "mlp", "--rounds", "2"), "--rounds 2"),
    (("calibrate", "mlp", "--metric", "operators,kernels"), "a count has no noise"),
    (
        ("calibrate", "mlp", "--metric", "energy", "--device", "cpu"),
        "no case on a CPU has energy; there are gross,",
    ),
    (("calibrate", "PLAN", "--rung", "eager"), "--rung is for workloads"),
    (("calibrate", "mpl"), "mlp"),
]


@pytest.mark.parametrize(("args", "named"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(home: Path, args: tuple[str, ...], named: str) -> None:
    files = {"PLAN": str(home / "plan.toml"), "OTHER": str(home / "other.json")}
    done = tare(home, *(re.sub("PLAN|OTHER", lambda match: files[match[0]], arg) for arg in args))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("tare: ")
    assert named in done.stderr


@pytest.mark.parametrize("verb", [("compare", "newest~1", "newest"), ("check", "plan.toml", "--baseline", "none")])
def test_a_report_that_could_not_be_written_is_refused_first(home: Path, verb: tuple[str, ...]) -> None:
    """Not after a night of measuring: even the baseline that is not there comes later."""
    args = [str(home / "plan.toml") if arg == "plan.toml" else arg for arg in verb]
    done = tare(home, *args, "-o", str(home / "nowhere" / "x.md"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no folder" in done.stderr


def test_the_value_of_a_variable_may_be_empty_or_hold_anything() -> None:
    assert parse_variables(["A=1", "_b2=", "A=x=y z"], "--env") == {"A": "x=y z", "_b2": ""}


@pytest.mark.parametrize("pair", ["", "A", "=1", "2A=1", "A B=1", "A=\0"])
def test_what_is_no_variable_is_refused(pair: str) -> None:
    with pytest.raises(BadInput, match="--env takes NAME=VALUE, not '"):
        parse_variables([pair], "--env")
