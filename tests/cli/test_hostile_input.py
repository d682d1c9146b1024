"""Files that would fill the memory, and secrets on the command line: one line, exit code 2, nothing repeated."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import planted_tare, tare
from xspaces import field, varint

MEMBER_MB = 16
# What tare and its imports take is about 100 MB.
MOST_MEMORY = 512 << 20


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 3 MB each that expand to 3 GB. Members of gzip may follow each other."""
    folder = tmp_path_factory.mktemp("bombs")
    pieces = {"spaces": b" ", "values": b",0", "trace": b',{"ph":"X","cat":"kernel","ts":1,"dur":1}'}
    for name, piece in pieces.items():
        start = b'{"traceEvents": [{"ph": "X"}' if name == "trace" else b"[0"
        member = gzip.compress(piece * ((MEMBER_MB << 20) // len(piece)))
        count = max((3 << 20) // len(member), 1)
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(start) + member * count)
    return folder


# The process reads its own peak: what the kernel says of a child after its end contains the memory of the parent
# that it was forked from.
PEAK = """
import runpy, sys
from tare.measure.memory import _status_field
path = sys.argv.pop(1)
try:
    runpy.run_module("tare", run_name="__main__", alter_sys=True)
finally:
    open(path, "w").write(str(_status_field("VmHWM")))
"""


def run_with_peak(home: Path, *args: str) -> tuple[int, str, int]:
    """Exit code, standard error and peak memory of a tare."""
    peak = home / "peak"
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(peak), *args],
        env={**os.environ, "TARE_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr, int(peak.read_text())


def full(*args: str) -> object:
    return pytest.param(args, marks=pytest.mark.full)


@pytest.mark.parametrize(
    "args",
    [
        ("import", "spaces.json.gz"),
        full("show", "values.json.gz"),
        full("explain", "trace.json.gz"),
        full("import", "values.json.gz"),
        full("show", "spaces.json.gz"),
        full("export", "values.json.gz"),
        full("compare", "spaces.json.gz", "spaces.json.gz"),
        full("explain", "spaces.json.gz"),
        full("diff", "trace.json.gz", "trace.json.gz"),
        full("history", "values.json.gz"),
    ],
)
def test_a_small_file_that_expands_to_gigabytes(bombs: Path, tmp_path: Path, args: tuple[str, ...]) -> None:
    verb, *files = args
    code, errors, peak = run_with_peak(tmp_path, verb, *(str(bombs / file) for file in files))
    assert code == 2, errors
    assert len(errors.strip().splitlines()) == 1
    assert files[0] in errors
    assert peak < MOST_MEMORY


@pytest.mark.full
@pytest.mark.parametrize(
    ("tag", "form"),
    [(b"\x22", b"\x08\x01\x10%b\x18\x90\x4e"), (b"\x22", b"\x08%b\x12\x02\x12\x00")],
    ids=["events", "names"],
)
def test_a_small_profile_of_xla_that_would_fill_the_memory(tmp_path: Path, tag: bytes, form: bytes) -> None:
    """Millions of messages, which compress to a few bytes each."""
    entries = [form % varint(1 << 27 | i) for i in range(1000)] * 2300
    body = b"".join(tag + bytes([len(entry)]) + entry for entry in entries)
    stream = field(2, "Stream #1")
    plane = (
        field(3, stream + body) if b"\x18" in form else body + field(3, stream + b"\x22\x05\x08\x01\x18\x90\x4e")
    )
    path = tmp_path / "bomb.xplane.pb"
    path.write_bytes(gzip.compress(field(1, field(2, "/device:GPU:0") + plane)))
    assert path.stat().st_size < 1 << 20
    code, errors, peak = run_with_peak(tmp_path, "explain", str(path))
    assert code == 2, errors
    assert "too many events for its size" in errors
    assert len(errors.strip().splitlines()) == 1
    assert peak < MOST_MEMORY


@pytest.mark.full
def test_a_plan_that_is_no_plan_but_a_bomb(bombs: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_bytes((bombs / "spaces.json.gz").read_bytes())
    code, errors, peak = run_with_peak(tmp_path, "run", str(plan))
    assert (code, errors) == (2, f"tare: {plan} is too large: more than 1 MB\n")
    assert peak < MOST_MEMORY


@pytest.mark.parametrize(
    "args",
    [
        ("show", "--store", "postgres:user:hunter2@host"),
        ("show", "--store", "nodb://user:hunter2@host/x"),
        ("list", "records", "postgresql://user:hunter2@host/x"),
        ("show", "workload", "postgresql://user:hunter2@host/x"),
        ("check", "none.toml", "--baseline-env", "hf_" + "hunter2a" * 4),
        ("check", "none.toml", "--baseline-env", "HF TOKEN=hunter2"),
        ("compare", "newest", "postgresql://user:" + "hunter2" * 40 + "@host/x"),
        ("run", "postgresql://user:" + "hunter2" * 40 + "@host/x"),
        ("no-such-verb", "--token=hunter2"),
    ],
)
def test_an_error_repeats_no_secret(tmp_path: Path, args: tuple[str, ...]) -> None:
    done = tare(tmp_path, *args)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "hunter2" not in done.stderr + done.stdout


def test_the_traceback_of_a_crash_repeats_no_secret() -> None:
    """Users publish these."""
    crash = "import tare.cli.app as a; a.app = lambda *_, **__: {}['https://u:hunter2' + '@host/']; a.run()"
    done = subprocess.run([sys.executable, "-c", crash, "show"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("KeyError: 'https://u:***@host/'\n")


@pytest.mark.full
def test_nothing_that_a_check_leaves_behind_holds_a_secret(tmp_path: Path) -> None:
    """The secrets of the environment and of the command line, in the store, the reports and the messages of a
    workload that fails and repeats them."""
    plan = tmp_path / "plan.toml"
    grid = '[[grid]]\nworkload = ["mlp", "planted_secrets"]\nrung = "eager"\n'
    plan.write_text(f"[options]\nrounds = 2\nbudget = 0.2\n{grid}")
    variables = {"HF_TOKEN": "hunter2hub", "TORCH_MIRROR": "https://u:hunter2url@h/", "TF_VAR_x": "hunter2tf"}
    options = ("--baseline-env", "SIDE_TOKEN=hunter2side", "--baseline-env", "OTHER=hunter2other", "--no-diff")
    report = tmp_path / "report.md"
    done = planted_tare(
        tmp_path, "check", str(plan), *options, "--format", "markdown", "-o", str(report), **variables
    )
    assert done.returncode in (0, 1), done.stderr
    again = planted_tare(tmp_path, "check", str(plan), *options, "--json", "--resume", **variables)
    exported = tare(tmp_path, "export")
    texts = [done.stderr, done.stdout, again.stdout, again.stderr, exported.stdout, report.read_text()]
    texts += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert [text for text in texts if "hunter2" in text] == []
    failures = [record["failure"] for record in json.loads(exported.stdout) if record["failure"]]
    assert failures
    assert all("loads with ***" in failure["message"] for failure in failures)
    assert "--baseline-env 'SIDE_TOKEN=***' --baseline-env 'OTHER=***'" in report.read_text()
