"""`tare explain` and `tare diff` of files of other profilers: by content or ending, in folders, in one line."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import tare
from nsight_exports import NsightWriter, write_nsight
from ranks import job
from rocprof_files import write_rocprof
from traces import RECORDED, TraceBuilder
from typer.testing import CliRunner
from xspaces import write_chrome, write_xspace

from tare.cli.app import app
from tare.errors import BadInput


def program(length: float = 30) -> TraceBuilder:
    trace = TraceBuilder()
    for at in (0, 100):
        trace.step(at, at + 90)
        trace.op("aten::mm", at + 5, at + 25)
        trace.launch(at + 10, at + 14, at + 20, at + 20 + length, "gemm")
        trace.call("cudaStreamSynchronize", at + 30, at + 80)
    return trace


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, result.output


def refused(*args: str) -> str:
    error = CliRunner().invoke(app, list(args)).exception
    assert isinstance(error, BadInput), error
    assert len(str(error).splitlines()) == 1
    return str(error)


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_nsight, "report1.sqlite"),
        (write_xspace, "no-ending"),
        pytest.param(write_nsight, "no-ending", marks=pytest.mark.full),
        pytest.param(write_xspace, "vm.xplane.pb.gz", marks=pytest.mark.full),
        (write_rocprof, "1234_results.json"),
    ],
)
def test_every_format_is_explained(tmp_path: Path, write: Callable[[TraceBuilder, Path], Path], name: str) -> None:
    path = write(program(), tmp_path / name)
    code, printed = run("explain", str(path), "--json")
    assert code == 0, printed
    (one,) = json.loads(printed)["explanations"]
    assert one["title"] == name.partition(".")[0]
    assert (one["breakdown"]["active"], one["breakdown"]["window"]) == (60_000, 180_000)
    code, printed = run("explain", str(path), "--tables", "5", "--flame", str(tmp_path / "stacks"))
    assert code == 0
    assert "where a step goes" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert "gemm" in (tmp_path / "stacks").read_text()


def test_a_log_folder_is_its_newest_run_without_the_copies_in_json(tmp_path: Path) -> None:
    for date, length in (("2026_11_18_09_00_00", 10), ("2026_11_19_09_00_00", 30)):
        folder = tmp_path / "plugins" / "profile" / date
        folder.mkdir(parents=True)
        profile = write_xspace(program(length), folder / "vm.xplane.pb")
        write_chrome(profile, folder / "vm.trace.json.gz")
        write_chrome(profile, folder / "perfetto_trace.json.gz")
    for target in (tmp_path, folder):
        code, printed = run("explain", str(target), "--json")
        assert code == 0
        assert [one["breakdown"]["active"] for one in json.loads(printed)["explanations"]] == [60_000]


def test_the_recorded_profiles_of_a_cpu_are_explained() -> None:
    code, printed = run("explain", str(RECORDED / "xla" / "tensorflow-cpu.xplane.pb.gz"))
    assert code == 0
    assert "matmul:_MklMatMul" in printed
    assert "no device: the host's time by operator" in printed


def test_two_files_of_different_profilers_are_compared(tmp_path: Path) -> None:
    before = write_nsight(program(30), tmp_path / "a.sqlite")
    after = write_xspace(program(60), tmp_path / "b.xplane.pb")
    code, printed = run("diff", str(before), str(after), "--json")
    assert code == 0
    (kernel,) = (each for each in json.loads(printed)["trace"]["kernels"] if each["name"] == "gemm")
    assert [round(kernel[f"{side}_s"] * 1e6) for side in ("before", "after")] == [30, 60]
    code, printed = run("explain", str(before), "--against", str(after))
    assert code == 0
    assert "a trace and a record cannot be compared" in refused("diff", str(before), "newest")


@pytest.mark.parametrize("one_file", [True, pytest.param(False, marks=pytest.mark.full)])
def test_ranks_recorded_by_nsight_are_one_job(tmp_path: Path, one_file: bool) -> None:
    """`nsys profile torchrun ...` writes one file; with a session for each rank there are several."""
    traces = job(ranks=3, slow=2, slow_for=300)
    writers = [NsightWriter(tmp_path / f"rank{i}.sqlite") for i in range(1 if one_file else 3)]
    for rank, trace in enumerate(traces):
        writers[0 if one_file else rank].take(trace, 100 + rank)
    code, printed = run("explain", str(tmp_path))
    assert code == 0
    assert "one job of 3 ranks" in printed
    assert "rank 2 is the straggler" in printed


def test_tracks_are_written_into_chrome_traces_alone(tmp_path: Path) -> None:
    profile = write_xspace(program(), tmp_path / "p.xplane.pb")
    target = tmp_path / "annotated.json"
    message = refused("explain", str(profile), "--annotate", str(target))
    assert message.startswith("--annotate writes into traces in Chrome's format")
    assert not target.exists()
    chrome = write_chrome(profile, tmp_path / "p.json.gz")
    code, _ = run("explain", str(chrome), "--annotate", str(target))
    assert code == 0
    events = json.loads(target.read_text())["traceEvents"]
    idle = [event for event in events if event.get("cat") == "tare"]
    assert [event["ts"] for event in idle][:1] == [0]


@pytest.mark.parametrize(
    ("name", "data", "hint"),
    [
        ("report1.nsys-rep", b"\x80binary", "convert it with `nsys export --type sqlite"),
        ("results.pftrace", b"\x0a\x80binary", "convert it with `traceconv json"),
        ("report.sqlite", b"SQLite format 3\0 and no more", "not a database"),
        ("report.sqlite", b"not SQLite", "no list 'traceEvents'"),
        ("vm.xplane.pb", b"\x0a\x0f\x12\x09/host:CPU\x1a\x7f", "truncated or damaged"),
        ("vm.xplane.pb", b"", "is empty"),
        ("weights.bin", bytes(range(256)), "name one of torch.profiler"),
        ("results.json", b'{"rocprofiler-sdk-tool": 5}', "no document of rocprofv3"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str, data: bytes, hint: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    message = refused("explain", str(path))
    assert hint in message
    assert str(path) in message
    if name != "results.json":
        assert str(path) in refused("diff", str(path), str(path))


@pytest.mark.parametrize("verb", ["explain", "diff"])
@pytest.mark.parametrize("name", ["none.sqlite", "none.xplane.pb"])
def test_a_missing_file_is_one_line(tmp_path: Path, verb: str, name: str) -> None:
    path = str(tmp_path / name)
    assert f"{path}: No such file" in refused(verb, *[path] * (1 if verb == "explain" else 2))


FORMAT = """
from tare.trace.events import span
from tare.trace.formats import TraceFormat, trace_format

@trace_format
class Stopwatch(TraceFormat):
    name = "stopwatch"
    endings = (".watch",)

    @staticmethod
    def begins(head):
        return head.startswith(b"watch")

    def __iter__(self):
        for line in self.path.read_text().splitlines()[1:]:
            name, start, end = line.split()
            yield [span("cpu_op", name, (1, 1), int(start), int(end))]
"""


@pytest.mark.full
def test_a_format_is_one_small_file(tmp_path: Path) -> None:
    (tmp_path / "stopwatch.py").write_text(FORMAT)
    path = tmp_path / "mine"
    path.write_text("watch\nload 0 500\ncompute 500 2000\n")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = tare(tmp_path / "home", "explain", str(path), "--json", TARE_PLUGINS="stopwatch", PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["explanations"]
    assert [(each["name"], each["self_time"]) for each in one["host"]["operators"]] == [
        ("compute", 1500), ("load", 500),
    ]  # fmt: skip
