"""The C++ side of the protocol, without torch: the example of docs/protocol.md, and the shared statistics."""

import json
import subprocess
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import pytest
from image_files import prepared_mnist

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.execute.executor import LocalExecutor
from tare.execute.launch import SpawnLauncher
from tare.protocol.jobs import BatchSource
from tare.records.record import Round
from tare.rungs.native.build import SOURCES
from tare.rungs.native.toolchain import compiler
from tare.stats.intervals import median_interval
from tare.worker.batches import arrays_of, read_order
from tare.workloads.datasets.batches import Shapes, epoch_order

INTERVALS = r"""
#include <cstdio>
#include "native/worker/interval.hpp"
int main() {
  std::vector<double> values;
  for (double value; std::scanf("%lf", &value) == 1;) values.push_back(value);
  std::printf("%.17g\n", tare::relative_width(values));
}
"""
READER = r"""
#include <iostream>
#include <iterator>
#include "native/worker/json.hpp"
int main() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), {});
  try {
    auto job = tare::JsonReader::read(text);
    std::cout << job["case"]["workload"].as_text("none") << " " << job["budget_s"].as_number(-1) << "\n";
  } catch (const std::runtime_error& error) {
    std::cout << "refused\n";
  }
}
"""
ARRAYS = r"""
#include <iostream>
#include "native/worker/npy.hpp"
int main(int, char** words) {
  try {
    auto array = tare::read_npy(words[1]);
    for (auto n : array.shape) std::cout << n << " ";
    std::cout << "|";
    for (auto value : array.values) std::cout << " " << value;
  } catch (const std::runtime_error& error) {
    std::cout << "refused";
  }
}
"""


def compile_to(folder: Path, source: Path) -> Path:
    program = folder / source.stem
    found = compiler()
    assert found, "the tests need a C++ compiler (apt-get install g++)"
    subprocess.run([found, "-std=c++20", "-O2", "-I", str(SOURCES), str(source), "-o", str(program)], check=True)
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("native")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def spun(folder: Path) -> Round:
    """The example with steps of 300 us, measured by the executor like any worker."""
    program = compile_to(folder, SOURCES / "native" / "example" / "spinner.cpp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_HOME", str(folder))
        executor = LocalExecutor(SpawnLauncher((str(program),)), folder / "scratch")
        case = Case(workload="mlp", rung="eager", batch=300)
        return executor.run_round(case, 0, Options(rounds=1, budget=1.0), check=False)


@pytest.mark.alone
def test_example_is_a_rung(spun: Round) -> None:
    assert spun.failure is None
    assert [series.kind for series in spun.series] == ["warmup", "pipelined", "latency"]
    assert spun.host_memory is not None
    assert 0 < spun.host_memory.peak < 100 * 2**20


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["pipelined", "latency"])
def test_step_of_known_length_is_measured_within_one_percent(spun: Round, kind: str) -> None:
    series = spun.find(kind)  # type: ignore[arg-type]
    assert series is not None
    # The quarter of the blocks least disturbed by other processes: a spin is never shorter than its length.
    seconds = sorted(series.step_seconds())
    assert median(seconds[: max(len(seconds) // 4, 1)]) == pytest.approx(300e-6, rel=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_interval_of_the_median_matches_python(folder: Path, seed: int) -> None:
    (folder / "intervals.cpp").write_text(INTERVALS)
    program = folder / "intervals"
    if not program.exists():
        compile_to(folder, folder / "intervals.cpp")
    chance = np.random.default_rng(seed)
    noise = chance.normal(0, 0.02, [8, 9, 33, 100, 400, 1500][seed])
    values = 1 + (np.cumsum(noise) if seed % 2 else noise) + np.linspace(0, 0.01 * seed, noise.size)
    text = " ".join(repr(float(value)) for value in values)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(median_interval(list(values)).width, rel=1e-9)


def test_job_is_read_and_damage_is_refused(folder: Path) -> None:
    (folder / "reader.cpp").write_text(READER)
    program = compile_to(folder, folder / "reader.cpp")

    def read(text: str) -> str:
        return subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout.strip()

    job = json.dumps({"case": {"workload": 'm\u00e9l"p\n'}, "budget_s": 4.5, "list": [1, [], {}, None, True]})
    assert read(job).endswith("4.5")
    assert read('{"case": {"workload": "mlp"}, "budget_s": 1}') == "mlp 1"
    for cut in range(1, len(job) - 1):
        assert read(job[:cut]) == "refused"
    assert read("[" * 100_000) == "refused"


def test_worker_started_by_hand_names_the_documentation(folder: Path, spun: Round) -> None:  # noqa: ARG001
    done = subprocess.run([folder / "spinner"], capture_output=True, text=True, env={}, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "docs/protocol.md" in done.stderr


def test_float32_arrays_are_read_and_others_are_refused(folder: Path) -> None:
    (folder / "arrays.cpp").write_text(ARRAYS)
    program = compile_to(folder, folder / "arrays.cpp")

    def read(array: np.ndarray) -> str:
        np.save(folder / "array.npy", array)
        return subprocess.run([program, folder / "array.npy"], capture_output=True, text=True, check=True).stdout

    assert read(np.array([[1, 2.5, 3], [4, 5, 6]], np.float32)) == "2 3 | 1 2.5 3 4 5 6"
    assert read(np.array([7, 8], np.float32)) == "2 | 7 8"
    assert read(np.array(9, np.float32)) == "| 9"
    assert read(np.zeros((1, 2, 1, 3), np.float32)) == "1 2 1 3 | 0 0 0 0 0 0"
    assert read(np.arange(3)) == "refused"
    assert read(np.zeros((2, 3), np.float64)) == "refused"
    assert read(np.asfortranarray(np.ones((2, 3), np.float32))) == "refused"
    np.save(folder / "array.npy", np.ones((2, 3), np.float32))
    whole = (folder / "array.npy").read_bytes()
    for length in (0, 5, 20, len(whole) - 1):
        (folder / "array.npy").write_bytes(whole[:length])
        done = subprocess.run([program, folder / "array.npy"], capture_output=True, text=True, check=True)
        assert done.stdout == "refused"


def test_program_without_a_loss_curve_is_unsupported(folder: Path, spun: Round) -> None:  # noqa: ARG001
    """The example has no loss curve: its answer is a failure with a cause."""
    from tare.execute.rounds import failure_of
    from tare.execute.supervise import Supervision, supervise
    from tare.protocol.jobs import CurveJob

    batches = BatchSource(folder=str(folder), orders=("order",), input=(300, 64), target=(300,))
    case = Case(workload="mlp", rung="eager", batch=300)
    job = CurveJob(case=case, batches=batches, evidence=str(folder), stage=str(folder))
    process = SpawnLauncher((str(folder / "spinner"),)).launch(job)
    failure = failure_of(supervise(process, Supervision(30.0)))
    assert failure is not None
    assert failure.cause == "unsupported"


BATCHES = r"""
#include <iostream>
#include "native/worker/dataset.hpp"
int main(int, char** words) {
  auto job = tare::JsonReader::read(words[1]);
  try {
    tare::TrainingImages images(job);
    tare::MappedFile<int64_t> order(job["orders"].list.at(0).text, -1);
    tare::Arrays all;
    for (int64_t at = 0; at + images.batch() <= order.count; at += images.batch())
      for (auto& array : images.make(order, at)) all.push_back(array);
    tare::write_evidence(words[2], all);
    auto again = tare::read_arrays(words[2]);
    std::cout << again.size() << " " << again.at(0).first;
  } catch (const std::runtime_error& error) {
    std::cout << "refused: " << error.what();
  }
}
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", ["images", "features", "rows"])
def test_batches_are_those_of_python_bit_by_bit(folder: Path, kind: str) -> None:
    """Same images, same order, same levels, same targets: in every shape that a workload may read."""
    program = compiled(folder, "batches", BATCHES)
    data = prepared_mnist(folder / "raw", size=6)
    shapes = {
        "images": Shapes(((4, 1, 6, 6),), (4,)),
        "features": Shapes(((4, 36),), (4,)),
        "rows": Shapes(((6, 4, 6),), (6, 4, 12)),
    }[kind]
    order = epoch_order(data.header.train, 4, 1, 2)
    (folder / "order.i64").write_bytes(order.tobytes())
    source = BatchSource(
        folder=str(data.folder), orders=(str(folder / "order.i64"),), input=shapes.args[0], target=shapes.target
    )
    out = folder / kind
    out.mkdir()
    done = subprocess.run([program, msgspec.json.encode(source), out], capture_output=True, text=True, check=True)
    assert done.stdout == f"{2 * len(order) // 4} input"
    read = [np.load(out / f"{i}.npy") for i in range(2 * len(order) // 4)]
    expected = [array for batch in arrays_of(source, order, data) for array in batch]
    for theirs, ours in zip(read, expected, strict=True):
        np.testing.assert_array_equal(theirs, ours)


@pytest.mark.usefixtures("home")
def test_data_that_are_cut_off_and_orders_beyond_them_are_refused(folder: Path) -> None:
    program = compiled(folder, "batches", BATCHES)
    data = prepared_mnist(folder / "raw", size=6)
    source = BatchSource(
        folder=str(data.folder), orders=(str(folder / "wild.i64"),), input=(4, 1, 6, 6), target=(4,)
    )
    (folder / "wild.i64").write_bytes(np.array([0, 1, 40, 2]).tobytes())

    def said() -> str:
        words: list[str | bytes | Path] = [program, msgspec.json.encode(source), folder]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert said() == "refused: the order names an image that is not there"
    with pytest.raises(BadInput, match="names an image that is not there"):
        read_order(source.orders[0], data.header.train)
    (data.folder / "train.labels.i64").write_bytes(b"short")
    assert "has another size than its header says" in said()


def compiled(folder: Path, name: str, text: str) -> Path:
    if (folder / name).exists():
        return folder / name
    (folder / f"{name}.cpp").write_text(text)
    return compile_to(folder, folder / f"{name}.cpp")
