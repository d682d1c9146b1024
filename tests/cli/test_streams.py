"""Output that cannot be written: one line, or a quiet end, and never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import make_record
from commandline import planted_environment
from traces import RECORDED

from tare.store.database import Store
from tare.store.journal import StoreJournal

ON_LINUX = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def shell(home: Path, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which $TARE is the command."""
    command = {"TARE": f"{sys.executable} -m tare"}
    return subprocess.run(
        ["bash", "-c", line],
        env=planted_environment(home) | command | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )


@ON_LINUX
@pytest.mark.parametrize("args", ["list findings", "list findings --json", "--help", "--version"])
def test_a_full_disk_is_one_line(tmp_path: Path, args: str) -> None:
    done = shell(tmp_path, f"$TARE {args} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "tare: cannot write the output: No space left on device\n")


@pytest.mark.full
@ON_LINUX
def test_a_run_whose_document_cannot_be_written_is_stored(tmp_path: Path) -> None:
    done = shell(tmp_path, "$TARE run mlp --quick --rung eager --json > /dev/full && exit 9; $TARE list records")
    assert done.stderr == "tare: cannot write the output: No space left on device\n"
    assert "mlp/eager" in done.stdout


@pytest.mark.full
@ON_LINUX
def test_a_page_is_written_even_if_what_is_shown_is_not(tmp_path: Path) -> None:
    trace, page = RECORDED / "inefficient-pageable-copy.json.gz", tmp_path / "page.html"
    done = shell(tmp_path, f"$TARE explain {trace} --html {page} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "tare: cannot write the output: No space left on device\n")
    assert "</html>" in page.read_text()


@pytest.mark.parametrize(
    "line", ["$TARE list findings >&-", "$TARE list findings | head -1 && exit ${PIPESTATUS[0]}"]
)
def test_nobody_who_reads_is_no_error(tmp_path: Path, line: str) -> None:
    done = shell(tmp_path, line)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("args", ["list findings", "list findings --json", "--help"])
def test_a_pipe_that_is_closed_before_the_first_line_is_no_error(tmp_path: Path, args: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as pipe:
        command = [sys.executable, "-m", "tare", *args.split()]
        done = subprocess.run(
            command, env=planted_environment(tmp_path), stdout=pipe, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "x.db"
    with Store(str(path)) as opened:
        StoreJournal(opened, "run000000001").add_record(make_record())
    return path


def test_a_store_does_not_become_the_output_that_is_missing(tmp_path: Path, store: Path) -> None:
    """With descriptor 1 closed the next file that is opened would get it."""
    done = shell(tmp_path, f"$TARE show --store {store} >&- 2>&- <&- && $TARE show --store {store}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mlp · infer" in done.stdout


@ON_LINUX
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_a_complaint_that_nobody_can_read_still_has_its_code(tmp_path: Path, closed: str) -> None:
    done = shell(tmp_path, f"$TARE list nothing {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_what_an_encoding_lacks_is_replaced(tmp_path: Path, store: Path) -> None:
    done = shell(tmp_path, f"$TARE show --store {store}", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1.00 +-0.02 ms" in done.stdout


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "darwin", reason="its names of files are always UTF-8")
def test_names_of_files_need_not_be_text(tmp_path: Path) -> None:
    plan = os.fsencode(tmp_path) + b"/b\xff.toml"
    Path(os.fsdecode(plan)).write_text("[[grid]]\nworkload = 'mlp'\nrung = 'eager'\nprecision = 'tf32'\n")
    for name, said in ((plan, "TF32"), (plan + b".toml", "no plan at")):
        done = subprocess.run(
            [sys.executable, "-m", "tare", "run", name], env=planted_environment(tmp_path), capture_output=True
        )
        assert done.returncode == 2
        assert said in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1
