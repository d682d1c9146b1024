"""tare explain and tare peaks as a user calls them."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest
from ceilings import CREATED, plant_peaks
from commandline import planted_tare, tare
from traces import RECORDED, TraceBuilder

from tare.measure.peak_store import save_peaks
from tare.records.work import Peaks
from tare.system.home import VARIABLE
from tare.workloads.groups import all_groups

H200 = Path(__file__).parents[2] / "results" / "peaks" / "h200.json"
QUICK = ("--device", "cpu", "--smoke", "--quick", "--budget", "0.3")
SMALL = ("--device", "cpu", "--batch", "2", "--size", "width=16", "--quick", "--rounds", "1", "--budget", "0.3")


def test_a_trace_as_json_is_one_document(tmp_path: Path) -> None:
    done = tare(tmp_path, "explain", str(RECORDED / "inefficient-pageable-copy.json.gz"), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (one,) = document["explanations"]
    assert sum(segment["ns"] for segment in one["waterfall"]["segments"]) == one["waterfall"]["gross"]
    assert one["breakdown"]["copies"][0]["memory"] == "pageable"
    assert document["diagnoses"][0]["findings"]


def test_several_traces_have_a_common_breakdown(tmp_path: Path) -> None:
    names = ("inefficient-pageable-copy", "resnet50-train-b32-eager-amp")
    done = tare(tmp_path, "explain", *(str(RECORDED / f"{name}.json.gz") for name in names), "--json")
    assert done.returncode == 0, done.stderr
    bars = json.loads(done.stdout)["breakdowns"]["bars"]
    assert [bar["workload"] for bar in bars] == list(names)
    assert all(bar["active"] + bar["movement"] + bar["idle"] == pytest.approx(1) for bar in bars)


def test_files_of_the_same_name_are_titled_with_their_folders(tmp_path: Path) -> None:
    paths = [tmp_path / f"rank{i}" / "t.json.gz" for i in range(2)]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes((RECORDED / "inefficient-leak.json.gz").read_bytes())
    found = json.loads(tare(tmp_path, "explain", *map(str, paths), "--json").stdout)
    names = [str(path.parent / "t") for path in paths]
    assert [one["title"] for one in found["explanations"]] == names
    assert [bar["workload"] for bar in found["breakdowns"]["bars"]] == names


def test_two_traces_without_gross_have_a_note_instead_of_a_difference(tmp_path: Path) -> None:
    paths = []
    for name in ("inefficient-leak", "inefficient-odd-shapes"):
        document = json.loads(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))
        del document["tare_recorded"]
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(document))
    found = json.loads(tare(tmp_path, "explain", str(paths[0]), "--against", str(paths[1]), "--json").stdout)
    assert found["against"] == []
    expected = "what was removed is not shown: gross is not known of inefficient-leak and inefficient-odd-shapes"
    assert any(note.startswith(expected) for note in found["explanations"][1]["notes"])


@pytest.mark.full
def test_a_group_is_explained_workload_by_workload(tmp_path: Path) -> None:
    plant_peaks(tmp_path)
    done = tare(tmp_path, "explain", "@rl", "--smoke", "--device", "cpu", "--quick", "--no-stacks", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {one["workload"] for one in found["explanations"]} == set(all_groups()["rl"])
    # The work of a step is counted in the process that profiles it.
    assert all(one["roofline"]["bytes"] > 0 for one in found["explanations"])


@pytest.mark.full
def test_a_rung_that_computes_something_else_is_compared_with_nothing(tmp_path: Path) -> None:
    plant_peaks(tmp_path)
    asked = ("explain", "planted_tiny", "--device", "cpu", "--rounds", "1", "--budget", "0.3", "--no-stacks")
    done = planted_tare(tmp_path, *asked, "--against", "planted_offset", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["rung"] for one in found["explanations"]] == ["eager", "planted_offset"]
    assert "this rung computes something else (different)" in found["explanations"][1]["notes"][0]
    assert found["against"] == []
    assert [one["differs"] for one in found["explanations"]] == ["", "different"]


@pytest.mark.full
def test_an_impossible_rung_is_skipped_and_listed(tmp_path: Path) -> None:
    plant_peaks(tmp_path)
    asked = ("explain", "mlp", *SMALL, "--against", "cudagraph", "--no-stacks")
    done = tare(tmp_path, *asked)
    assert done.returncode == 0, done.stderr
    assert "1 skipped" in done.stdout
    assert "cudagraph: " in done.stdout
    (skip,) = json.loads(tare(tmp_path, *asked, "--recorded", "--json").stdout)["skipped"]
    assert skip["key"].startswith("mlp/cudagraph/")


def test_a_workload_is_measured_profiled_and_explained(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = tare(tmp_path, "explain", "mlp", *SMALL, "--json", "--html", str(page))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (one,) = document["explanations"]
    assert one["case"].startswith("mlp/eager/infer/cpu/fp32/")
    assert not one["waterfall"]["profiled"]
    assert one["roofline"]["flops"] > 0
    assert {peak["name"] for peak in document["peaks"][0]["peaks"]} >= {"matrix:fp32", "bandwidth"}
    assert sorted(path.name for path in (tmp_path / "traces").iterdir())[0].endswith("-stacks.json.gz")
    assert "<svg" in page.read_text()
    # The kept trace gives the same explanation without measuring.
    again = json.loads(tare(tmp_path, "explain", one["trace"], "--json").stdout)["explanations"][0]
    assert {name: again[name] for name in ("case", "workload", "mode", "domain", "rung")} == {
        name: one[name] for name in ("case", "workload", "mode", "domain", "rung")
    }
    assert again["waterfall"]["gross"] == one["waterfall"]["gross"]
    assert not again["waterfall"]["profiled"]


def test_a_trace_of_tare_has_a_roofline_if_peaks_of_its_gpu_are_stored(tmp_path: Path) -> None:
    """Two products of a GFLOP each, at the 50.9 TFLOP/s that an H200 was once measured to reach."""
    with gzip.open(RECORDED / "inefficient-fp32-matmul-tf32-off.json.gz") as file:
        document = json.load(file)
    flops = 10**9
    operator = {"name": "aten::mm", "count": 2, "flops": flops, "bytes": 4, "precision": "fp32"}
    document["tare_profiled"] = {
        "case": "mlp/eager/infer",
        "workload": "mlp",
        "mode": "infer",
        "precision": "fp32",
        "rung": "eager",
        "work": {"operators": [operator], "read": 4, "written": 4},
    }
    path = tmp_path / "own.json"
    path.write_text(json.dumps(document))
    bare = json.loads(tare(tmp_path, "explain", str(path), "--json").stdout)["explanations"][0]
    assert bare["roofline"] is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path))
        save_peaks(msgspec.json.decode(H200.read_bytes(), type=Peaks))
    with_peaks = json.loads(tare(tmp_path, "explain", str(path), "--json").stdout)["explanations"][0]
    assert with_peaks["roofline"]["flops"] == 2 * flops
    assert with_peaks["roofline"]["ns"] == 39_323
    assert (with_peaks["domain"], with_peaks["rung"]) == ("other", "eager")
    assert any("savings by the peaks" in note for note in with_peaks["notes"])


@pytest.mark.full
def test_what_was_profiled_is_not_profiled_again(tmp_path: Path) -> None:
    """One trace is missing, as after a kill: only this one is recorded again, and nothing is measured again."""
    asked = ("explain", "mlp", "mnist_cnn", *QUICK, "--no-stacks", "--json")
    plant_peaks(tmp_path)
    first = json.loads(tare(tmp_path, *asked).stdout)
    assert [peaks["created"] for peaks in first["peaks"]] == [CREATED], "peaks that are known are not measured"
    paths = {Path(one["trace"]): one["workload"] for one in first["explanations"]}
    assert sorted(paths.values()) == ["mlp", "mnist_cnn"]
    assert all(one["places"] is None for one in first["explanations"])
    # A host alone has no parts to set side by side.
    assert first["breakdowns"] is None
    lost = next(path for path, workload in paths.items() if workload == "mlp")
    written = {path: path.stat().st_mtime_ns for path in paths}
    lost.unlink()
    done = tare(tmp_path, *asked, "--resume")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert {Path(one["trace"]) for one in again["explanations"]} == set(paths)
    assert [path for path in paths if path.stat().st_mtime_ns != written[path]] == [lost]


@pytest.mark.full
def test_every_case_has_its_files(tmp_path: Path) -> None:
    asked = ("explain", "mlp", "dqn", *QUICK, "--batch", "auto")
    files = ("--svg", str(tmp_path / "f.svg"), "--annotate", str(tmp_path / "x.json"), "--no-stacks", "--json")
    plant_peaks(tmp_path)
    done = tare(tmp_path, *asked, *files)
    assert done.returncode == 0, done.stderr
    cases = [one["case"] for one in json.loads(done.stdout)["explanations"]]
    assert len(cases) == 2
    assert "width=128" in cases[0]
    written = {"f-mlp.svg", "f-dqn.svg", "x-mlp.json", "x-dqn.json"}
    assert written <= {path.name for path in tmp_path.iterdir()}
    assert all(name in done.stderr for name in written)


def test_brackets_in_names_are_not_markup(tmp_path: Path) -> None:
    name, path = "void f<T>(T) [with T=float] [/b] :fire:", tmp_path / "[bold]t[/x].json"
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op(name, 5, 60)
    builder.launch(10, 15, 20, 40, kernel=name)
    other = builder.write(tmp_path / "other.json")
    builder.op(f"{name} more", 70, 90)
    path.parent.mkdir(parents=True)
    builder.write(path)
    done = tare(tmp_path, "explain", str(path), "--tables", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert name in done.stdout
    done = tare(tmp_path, "diff", str(other), str(path))
    assert (done.returncode, done.stderr) == (0, "")
    # The end of a long name is cut.
    assert name[:27] in done.stdout
    assert name not in done.stdout


def test_the_report_is_printed_even_if_no_file_can_be_written(tmp_path: Path) -> None:
    trace, target = RECORDED / "inefficient-leak.json.gz", Path("/dev/full")
    done = tare(tmp_path, "explain", str(trace), "--svg", str(target))
    assert done.returncode == 2
    assert "cannot write /dev/full" in done.stderr
    assert "memory-growth" in done.stdout


TRACE = str(RECORDED / "inefficient-leak.json.gz")
MEASURING = [
    ("--rung", "eager"), ("--mode", "infer"), ("--device", "foo"), ("--precision", "nope"), ("--batch", "zzz"),
    ("--size", "q=1"), ("--feed", "x"), ("--layout", "x"), ("--optimizer", "x"), ("--rounds", "0"),
    ("--budget", "-3"), ("--quick",), ("--resume",), ("--recorded",), ("--no-stacks",), ("--smoke",),
    ("--store", "x"),
]  # fmt: skip

BAD = [
    *((("explain", TRACE, *option), f"{option[0]} is for workloads") for option in MEASURING),
    (("explain", TRACE, "--svg", "/no/such/folder/f.svg"), "there is no folder /no/such/folder"),
    (("explain", "mlp", "--annotate", "/"), "cannot write /: it is a folder"),
    (("explain", "x.json", "--annotate", "x.json"), "it is also read; name another file"),
    (("explain", "x.json", "--against", "y.json", "--html", "./y.json"), "y.json: it is also read"),
    (("explain", "x.json", "--html", "a.html", "--svg", "a.html"), "cannot write a.html: two options name it"),
    (("explain", TRACE, "--sort", "blok"), "'block'"),
    (("explain", "mlp", "--batch", "auto,4"), "auto alone"),
    (("explain", "none.json"), "No such file"),
    (("explain", "resnet5"), "unknown workload 'resnet5' in the command line; did you mean 'resnet50'?"),
    (("explain", "mlp", "--rounds", "0"), "the options of the command line: "),
    (("explain", "mlp", "--rung", "eagr"), "eager"),
    (("explain", "mlp", "x.json"), "not both"),
    (("explain", "x.json", "--against", "compile"), "name a trace to compare a trace with"),
    (("explain", "mlp", "--against", "x.json"), "name a rung"),
    (("explain", "x.json", "y.json", "--against", "z.json"), "one trace with another"),
    (("explain", "mlp", "--against", "eager"), "name another"),
    (("explain", __file__ + ".json"), "No such file"),
    (("peaks", "--device", "tpu"), "tpu"),
    (("peaks", "--device", "cpu:3"), "torch sees no cpu:3 device here (there are: "),
]


@pytest.mark.parametrize(("args", "hint"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, args: tuple[str, ...], hint: str) -> None:
    done = tare(tmp_path, *args)
    assert done.returncode == 2
    assert hint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X"')
    done = tare(tmp_path, "explain", str(path))
    assert done.returncode == 2
    assert "truncated" in done.stderr


def test_a_file_of_records_is_refused_with_a_hint(tmp_path: Path) -> None:
    records = str(Path(__file__).parents[2] / "results" / "resnet50-cpu" / "infer.json.gz")
    done = tare(tmp_path, "explain", records)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{records} holds records, not a trace: tare show {records}" in done.stderr
