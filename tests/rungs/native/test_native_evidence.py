"""Evidence and audit of programs in C++: the same cheats as in tests/worker/test_evidence.py, without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.measure.parity import compare
from tare.records.record import Parity
from tare.rungs.native.build import SOURCES
from tare.rungs.native.toolchain import compiler
from tare.worker.staging import read_evidence

# One weight w and one number x: inference gives w x; training reduces (w x)^2 and returns it.
PROGRAM = r"""
#include <atomic>
#include <thread>
#include "native/worker/worker.hpp"
namespace tare {
std::atomic<long> pending{0};
class Planted : public Program {
 public:
  explicit Planted(const Json& job)
      : kind_(job["case"]["workload"].as_text()), trains_(job["case"]["mode"].as_text() == "train") {
    if (kind_ == "thread") std::thread([] {
      for (;;) {
        if (pending > 0) { --pending; spin(200'000); }
        else std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }).detach();
  }
  void step() override {
    ++count_;
    spin(20'000);
    if (kind_ == "thread") ++pending;
    if (kind_ == "skip" && count_ % 2 == 0) return;
    if (kind_ == "memo" && count_ > 1) return;
    if (kind_ == "content") {
      if (x_ == known_) return;
      known_ = x_;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    double y = w_ * x_;
    if (kind_ == "nan" && count_ % 7 == 6) y = NAN;
    if (!trains_) { result_ = y; return; }
    gradient_ = 2 * y * x_;
    bool updates = kind_ != "lazy" && !(kind_ == "later" && seen_);
    if (updates) w_ -= 0.01 * gradient_;
    result_ = y * y;
  }
  // So that a block has many steps, as on a device.
  bool overlaps() const override { return kind_ == "content"; }
  Arrays fetch() override { return {{"output/0", {{1}, {static_cast<float>(result_)}}}}; }
  bool trains() const override { return trains_; }
  void select(int64_t batch) override { x_ = 1.0 + batch; }
  void rewind() override { if (trains_) w_ = 3; }
  Arrays state() override {
    seen_ = true;
    auto number = [](double value) { return Array{{1}, {static_cast<float>(value)}}; };
    return {{"gradient/w", number(gradient_)}, {"update/w", number(w_ - 3)}};
  }
 private:
  static void spin(int64_t ns) { for (int64_t end = now_ns() + ns; now_ns() < end;) {} }
  std::string kind_;
  bool trains_, seen_ = false;
  long count_ = 0;
  double x_ = 1, w_ = 3, result_ = 0, gradient_ = 0, known_ = 0;
};
std::unique_ptr<Program> make_program(const Json& job) { return std::make_unique<Planted>(job); }
}  // namespace tare
int main() { return tare::work(); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = compiler()
    if not found:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.cpp").write_text(PROGRAM)
    command = [found, "-std=c++20", "-O1", "-pthread", "-I", str(SOURCES), "planted.cpp", "-o", "planted"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "planted"


def run(program: Path, folder: Path, kind: str, mode: str = "infer") -> tuple[list[dict[str, Any]], Path]:
    """The messages of the program, and the folder of its evidence."""
    job = {
        "kind": "round", "protocol": 1, "budget_s": 0.2, "width": 0.01, "evidence": str(folder),
        "case": {"workload": kind, "mode": mode},
    }  # fmt: skip
    with (folder / "messages").open("w+") as messages:
        environment = {**os.environ, "TARE_FD": str(messages.fileno())}
        subprocess.run(
            [program], input=json.dumps(job), text=True, env=environment, pass_fds=[messages.fileno()], timeout=60
        )
        messages.seek(0)
        return [json.loads(line) for line in messages], folder


def judge(folder: Path, mode: str = "infer") -> Parity:
    reference = {f"output/0@{batch}": np.array([3.0 * (1 + batch)]) for batch in range(3)}
    if mode == "train":
        reference = {f"loss/1@{batch}": np.array([(3.0 * (1 + batch)) ** 2]) for batch in range(3)}
        reference["gradient/w"] = np.array([6.0])
        reference["loss/3@0"] = np.array([(3 * 0.98**2) ** 2])
        reference["update/w"] = np.array([3 * 0.98**3 - 3])
    return compare(reference, read_evidence(folder), "fp32", {}, "by hand")


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_an_honest_program_is_the_same(program: Path, tmp_path: Path, mode: str) -> None:
    messages, folder = run(program, tmp_path, "honest", mode)
    assert messages[-1] == {"kind": "done"}
    parity = judge(folder, mode)
    assert parity.status == "same", parity
    assert parity.compared == (3 if mode == "infer" else 6)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("skip", "infer"), ("memo", "infer"), ("skip", "train"), ("lazy", "train"), ("later", "train")],
)
def test_a_program_that_does_not_work_in_timed_steps_is_different(
    program: Path, tmp_path: Path, kind: str, mode: str
) -> None:
    messages, folder = run(program, tmp_path, kind, mode)
    assert messages[-1] == {"kind": "done"}
    assert judge(folder, mode).status == "different"


CAUSES = {"nan": "nan", "content": "memoised"}
if sys.platform == "linux":
    CAUSES["thread"] = "unsynchronised"


@pytest.mark.parametrize("kind", CAUSES)
def test_a_program_whose_time_or_result_means_nothing_fails(program: Path, tmp_path: Path, kind: str) -> None:
    messages, _ = run(program, tmp_path, kind)
    assert messages[-1]["kind"] == "failed", messages[-1]
    assert messages[-1]["failure"]["cause"] == CAUSES[kind]
