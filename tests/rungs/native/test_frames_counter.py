"""The preloaded counter against libraries made for it: a vendor library that is not in the global scope, and
one whose entry no other library can see. Depths are known because the test wrote the calls."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from counter import build_counter, run_compiler

# Takes more arguments than there are registers, of both kinds, and mixes them all into what it returns.
CUDNN = r"""
extern "C" double cudnnConvolutionForward(long a, double x, long b, double y, long c, long d, long e, long f,
long g,
                                          double z, long h) {
  return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 0.5 * x + 0.25 * y + 0.125 * z;
}
"""
FRAMEWORK = r"""
extern "C" double cudnnConvolutionForward(long, double, long, double, long, long, long, long, long, double, long);
using Down = double (*)(int);
extern "C" double descend(int left);
static volatile Down next = descend;
// A sum behind each call keeps it from becoming a jump.
extern "C" __attribute__((noinline)) double descend(int left) {
  if (left > 1) return next(left - 1) + 1000;
  return cudnnConvolutionForward(1, 2.0, 3, 4.0, 5, 6, 7, 8, 9, 10.0, 11) + 1000;
}
"""
# What libtorch_cpu has inside: oneDNN's entry, known to its .symtab alone. A primitive here is a pointer to its
# kind.
HIDDEN = r"""
#define HIDDEN extern "C" __attribute__((visibility("hidden"), noinline))
HIDDEN int dnnl_primitive_get_primitive_desc(const void* primitive, const void** descriptor) {
  *descriptor = primitive;
  return 0;
}
HIDDEN int dnnl_primitive_desc_query(const void* descriptor, int what, int, void* result) {
  if (what != 2) return 1;
  *static_cast<int*>(result) = *static_cast<const int*>(descriptor);
  return 0;
}
static volatile long calls = 0;
HIDDEN long dnnl_primitive_execute(const int* primitive, long a, long b) {
  volatile long kept[16];
  for (int i = 0; i < 16; ++i) kept[i] = a + i;
  calls = calls + 1;
  return kept[*primitive % 16] * b;
}
extern "C" __attribute__((noinline)) long convolve(int kind) {
  return dnnl_primitive_execute(&kind, 10, 3) + 100000;
}
"""
DRIVER = r"""
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
static int depth;
static double (*descend)(int);
static long (*convolve)(int);
static double result;
static long hidden;
static void step(void*) {
  if (descend) result = descend(depth);
  if (convolve) hidden = convolve(5) + convolve(14) + convolve(1);
  if (descend && depth == 7) std::thread([] { descend(2); }).join();
}
int main(int count, char** words) {
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::puts(dlerror()), 3;
  depth = std::atoi(words[2]);
  descend = reinterpret_cast<double (*)(int)>(dlsym(library, "descend"));
  convolve = reinterpret_cast<long (*)(int)>(dlsym(library, "convolve"));
  step(nullptr);
  auto call = reinterpret_cast<void (*)(void (*)(void*), void*)>(dlsym(RTLD_DEFAULT, "tare_frames_call"));
  if (call && count < 4) call(step, nullptr);
  std::printf("%.3f %ld %s\n", result, hidden, std::getenv("LD_PRELOAD") ? "inherited" : "alone");
}
"""
ARGUMENTS = 1 + 6 + 15 + 30 + 49 + 88 + 117 + 187 + 1 + 1 + 1.25


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("counter")
    for name, text in (("cudnn", CUDNN), ("framework", FRAMEWORK), ("hidden", HIDDEN), ("driver", DRIVER)):
        (made / f"{name}.cpp").write_text(text)
    shared = ("-shared", "-fPIC")
    soname = "-Wl,-soname,libcudnn.so.9"
    run_compiler(*shared, str(made / "cudnn.cpp"), soname, "-o", str(made / "libcudnn.so.9"))
    run_compiler(*shared, str(made / "framework.cpp"), str(made / "libcudnn.so.9"), "-Wl,-rpath,$ORIGIN",
                 "-o", str(made / "libframework.so"))  # fmt: skip
    run_compiler(*shared, str(made / "hidden.cpp"), "-o", str(made / "libtorch_cpu.so"))
    run_compiler(str(made / "driver.cpp"), "-ldl", "-pthread", "-o", str(made / "driver"))
    build_counter(made)
    return made


def run(
    folder: Path, library: str, depth: int, *more: str, preload: bool = True
) -> tuple[str, dict[str, Any] | None]:
    report = folder / "frames.json"
    report.unlink(missing_ok=True)
    environment = {**os.environ, "TARE_FRAMES": str(report)}
    if preload:
        environment["LD_PRELOAD"] = str(folder / "libtare-frames.so")
    command = [str(folder / "driver"), str(folder / library), str(depth), *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(report.read_text()) if report.exists() else None


def names(report: dict[str, Any], hit: int) -> list[str]:
    return [report["places"][i]["symbol"] for i in report["hits"][hit]["stack"]]


@pytest.mark.parametrize("depth", [1, 2, 40])
def test_the_real_function_is_found_outside_the_global_scope_and_gets_every_argument(
    folder: Path, depth: int
) -> None:
    text, report = run(folder, "libframework.so", depth)
    assert text == f"{ARGUMENTS + 1000 * depth:.3f} 0 alone\n"
    assert report is not None
    (hit,) = report["hits"]
    assert (hit["entry"], hit["kind"], hit["anchored"]) == ("cudnnConvolutionForward", "convolution", True)
    assert names(report, 0)[:depth] == ["descend"] * depth
    # What remains is the driver's step, and nothing of the counter's.
    assert len(hit["stack"]) == depth + 1


def test_only_the_user_s_call_is_counted(folder: Path) -> None:
    text, report = run(folder, "libframework.so", 3, "never-called")
    assert text.startswith(f"{ARGUMENTS + 3000:.3f}")
    assert report is None


def test_another_thread_is_seen_but_not_taken_for_the_user_s_call(folder: Path) -> None:
    _, report = run(folder, "libframework.so", 7)
    assert report is not None
    assert [hit["anchored"] for hit in report["hits"]] == [True, False]
    assert names(report, 1)[:2] == ["descend"] * 2


def test_a_function_that_is_not_exported_is_stopped_at_named_and_goes_on_unharmed(folder: Path) -> None:
    without, _ = run(folder, "libtorch_cpu.so", 1, preload=False)
    text, report = run(folder, "libtorch_cpu.so", 1)
    assert text.split()[1] == without.split()[1]
    assert report is not None
    assert report["unwatched"] == {}
    assert [hit["kind"] for hit in report["hits"]] == ["convolution", "product", "other"]
    assert {hit["entry"] for hit in report["hits"]} == {"dnnl_primitive_execute"}
    for i in range(3):
        assert names(report, i)[0] == "convolve"
        assert len(report["hits"][i]["stack"]) == 2


def test_what_cannot_be_watched_is_said(folder: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "libtorch_cpu.so"
    stripped.write_bytes((folder / "libtorch_cpu.so").read_bytes())
    subprocess.run(["strip", str(stripped)], check=True)
    text, report = run(folder, str(stripped), 1)
    assert text.split()[1] != "0"
    assert report is not None
    assert report["hits"] == []
    assert "symbols of the library" in report["unwatched"]["dnnl_primitive_execute"]
