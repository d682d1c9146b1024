"""Building the native components: in parallel, with a share of the cores each, and what a failure leaves."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import psutil
import pytest
from commandline import start_tare, wait_until
from typer.testing import CliRunner

from tare.cli.app import app
from tare.errors import TareError
from tare.rungs.native import build, toolchain
from tare.rungs.native.build import Commands, Setting
from tare.rungs.native.toolchain import processor

TWO = ("libtorch", "native/frames")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))


def test_components_are_built_in_parallel_and_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    met = threading.Barrier(2, timeout=60)
    given: dict[str, int] = {}

    def meet(component: str, folder: Path, jobs: int, commands: Commands) -> None:  # noqa: ARG001
        met.wait()
        given[component] = jobs

    monkeypatch.setattr(build, "_build", meet)
    folders = build.build_all(TWO, cores=6)
    assert given == {"libtorch": 3, "native/frames": 3}
    assert folders == {component: build.build_folder(component) for component in TWO}


@pytest.mark.parametrize(("cores", "jobs"), [(1, 1), (2, 1), (16, build.MOST_JOBS)])
def test_number_of_compilers_per_component(cores: int, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(build, "_build", lambda component, _, jobs, __: given.append((component, jobs)))
    build.build_all(TWO, cores)
    assert sorted(given) == [("libtorch", jobs), ("native/frames", jobs)]


def test_failed_component_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_first(component: str, folder: Path, jobs: int, commands: Commands) -> None:  # noqa: ARG001
        if component == "libtorch":
            raise TareError("planted")

    monkeypatch.setattr(build, "_build", fail_first)
    made = build.build_all(TWO, cores=1)
    assert str(made["libtorch"]) == "planted"
    assert made["native/frames"] == build.build_folder("native/frames")


def test_command_reports_each_component_and_fails_if_one_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lacking = {"vendor/cuda": "nvcc"}
    monkeypatch.setattr(build, "missing_tools", lacking.get)
    made: dict[str, Path | TareError] = {name: tmp_path / name for name in build.COMPONENTS if name not in lacking}
    monkeypatch.setattr(build, "build_all", lambda components, cores: {name: made[name] for name in components})  # noqa: ARG005
    well = CliRunner().invoke(app, ["build", "--json"])
    assert well.exit_code == 0, well.output
    assert json.loads(well.stdout)["not_built"] == {"vendor/cuda": "nvcc is missing"}
    made["libtorch"] = TareError("planted")
    ill = CliRunner().invoke(app, ["build", "--json"])
    assert ill.exit_code == 1
    said = json.loads(ill.stdout)
    assert said["not_built"]["libtorch"] == "planted"
    assert said["folders"]["native/frames"] == str(tmp_path / "native/frames")


def test_first_error_of_cmake_is_reported_in_full() -> None:
    log = "-- ok\nCMake Error in a/CMakeLists.txt:\n  no such thing:\n  as this\n\n\nCMake Error: other\n"
    assert build.first_error(log) == "CMake Error in a/CMakeLists.txt: no such thing: as this"
    simple = 'CMake Error at a:6:\n  The C++ compiler\n\n    "/a/c++"\n\n  is not able.\n\n  It\n'
    assert build.first_error(simple).endswith('The C++ compiler "/a/c++" is not able.')
    assert build.first_error("x.cpp:3: error: no\nmore\n") == "x.cpp:3: error: no"
    assert build.first_error("silence\n") == "see the log"


def test_build_key_depends_on_the_gpu_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for wanted in ("80", "90", "80;90"):
        monkeypatch.setenv("CUDAARCHS", wanted)
        keys.add(build.build_key("vendor/cuda"))
    assert len(keys) == 3


def test_build_key_is_computed_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    build._key_of_this_process.cache_clear()

    def answer(component: str) -> str:
        asked.append(component)
        return "key"

    monkeypatch.setattr(build, "build_key", answer)
    folders = {build.build_folder("native/frames") for _ in range(3)}
    build._key_of_this_process.cache_clear()
    assert {folder.name for folder in folders} == {"native-frames-key"}
    assert asked == ["native/frames"]


def test_build_key_depends_on_the_linked_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {component: build.build_key(component) for component in TWO}
    elsewhere = Setting(lambda: Path("/another/environment/torch"), "torch")
    monkeypatch.setitem(build.COMPONENTS["libtorch"].settings, "TORCH_FOLDER", elsewhere)
    after = {component: build.build_key(component) for component in TWO}
    assert (before["libtorch"] != after["libtorch"], before["native/frames"] == after["native/frames"]) == (
        True,
        True,
    )


def test_build_key_depends_on_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.build_key("native/frames")
    monkeypatch.setenv("CXXFLAGS", "-O0")
    assert build.build_key("native/frames") != before


def test_build_key_depends_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several machines may share a home, and code compiled for one processor may end with SIGILL on another."""
    before = {component: build.build_key(component) for component in ("vendor/cpu", "native/frames")}
    monkeypatch.setattr(toolchain, "processor", lambda: "another")
    after = {component: build.build_key(component) for component in before}
    assert (before["vendor/cpu"] != after["vendor/cpu"], before["native/frames"] == after["native/frames"]) == (
        True,
        True,
    )


def test_processor_is_described_by_constant_properties() -> None:
    assert len(processor().split()) > 3
    assert processor() == processor()
    assert "MHz" not in processor()


def test_each_build_has_its_own_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Path] = []

    def fail(_: Commands, __: list[str], work: Path) -> None:
        work.mkdir()
        used.append(work)
        raise TareError("planted")

    monkeypatch.setattr(Commands, "run", fail)
    for _ in range(2):
        build.build_all(["native/frames"], cores=1)
    assert used[0] != used[1]
    assert not used[0].exists()


# Ninja starts a compiler in a process group of its own, so a signal to the builder's group does not reach it.
STARTS_A_GROUP = "import subprocess, sys; subprocess.Popen(['sleep', '600'], process_group=0).wait()"


def test_stopped_build_leaves_no_compiler_behind(tmp_path: Path) -> None:
    commands, errors = Commands(), []

    def wait_for_it() -> None:
        try:
            commands.run([sys.executable, "-c", STARTS_A_GROUP], tmp_path)
        except TareError as error:
            errors.append(str(error))

    waiting = threading.Thread(target=wait_for_it)
    waiting.start()
    wait_until(lambda: bool(_sleepers()))
    sleepers = _sleepers()
    commands.stop()
    waiting.join(60)
    assert "cannot build" in errors[0]
    wait_until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in sleepers))
    with pytest.raises(TareError, match="interrupted"):
        commands.run(["true"], tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_build_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    cmake = tmp_path / "bin" / "cmake"
    cmake.parent.mkdir()
    cmake.write_text("#!/bin/sh\nsleep 600\n")
    cmake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cmake.parent}{os.pathsep}{os.environ['PATH']}")
    running = start_tare(tmp_path / "home", "build")
    wait_until(lambda: bool(_sleepers(running.pid)))
    sleepers = _sleepers(running.pid)
    running.send_signal(number)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in stderr
    wait_until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in sleepers))


def _sleepers(pid: int | None = None) -> list[psutil.Process]:
    family = psutil.Process(pid).children(recursive=True)
    return [one for one in family if "sleep" in one.name()]


def test_waiting_for_another_build_can_be_interrupted(tmp_path: Path) -> None:
    commands = Commands()
    commands.stop()
    held = build._alone(tmp_path / "a.lock", Commands())
    with held, pytest.raises(TareError, match="interrupted"), build._alone(tmp_path / "a.lock", commands):
        raise AssertionError("two at once")


def test_lock_that_cannot_be_created_is_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(TareError, match="cannot build the native rungs"),
        build._alone(tmp_path / "no" / "a", Commands()),
    ):
        raise AssertionError("without a lock")


def test_compiler_in_cxx_that_does_not_exist_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "CXX=no-such-compiler is no program here" in str(build.missing_tools("native/frames"))


def test_build_without_a_program_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Commands, "run", lambda _, __, work: work.mkdir(parents=True, exist_ok=True))
    made = build.build_all(["native/frames"], cores=1)["native/frames"]
    assert "the build gave no libtare-frames.so, tare-descend" in str(made)
    assert not build.build_folder("native/frames").exists()


def test_incomplete_build_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(_: Commands, __: list[str], work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        for program in build.COMPONENTS["native/frames"].programs:
            (work / program).touch()

    monkeypatch.setattr(Commands, "run", make)
    left = build.build_folder("native/frames")
    left.mkdir(parents=True)
    (left / "libtare-frames.so").touch()
    assert build.build_all(["native/frames"], cores=1) == {"native/frames": left}
    assert (left / "tare-descend").exists()
