"""Builds side by side: how many at once, with how many compilers each, and what a failure leaves."""

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tare.cli import app
from tare.errors import TareError
from tare.native import build

TWO = ("torch", "frames")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))


def test_components_are_built_at_once_and_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    met = threading.Barrier(2, timeout=60)
    given: dict[str, int] = {}

    def meet(component: str, folder: Path, jobs: int) -> None:  # noqa: ARG001
        met.wait()
        given[component] = jobs

    monkeypatch.setattr(build, "_build", meet)
    folders = build.build_all(TWO, cores=6)
    assert given == {"torch": 3, "frames": 3}
    assert folders == {component: build.build_folder(component) for component in TWO}


@pytest.mark.parametrize(("cores", "jobs"), [(1, 1), (2, 1), (16, build.MOST_JOBS)])
def test_no_component_gets_more_compilers_than_it_has_use_for(
    cores: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(build, "_build", lambda component, _, jobs: given.append((component, jobs)))
    build.build_all(TWO, cores)
    assert sorted(given) == [("frames", jobs), ("torch", jobs)]


def test_one_that_fails_does_not_keep_the_others_from_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_first(component: str, folder: Path, jobs: int) -> None:  # noqa: ARG001
        if component == "torch":
            raise TareError("planted")

    monkeypatch.setattr(build, "_build", fail_first)
    made = build.build_all(TWO, cores=1)
    assert str(made["torch"]) == "planted"
    assert made["frames"] == build.build_folder("frames")


def test_the_command_tells_of_each_component_and_fails_if_one_did(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lacking = {"vendor/cuda": "nvcc"}
    monkeypatch.setattr(build, "missing_tools", lacking.get)
    made: dict[str, Path | TareError] = {name: tmp_path / name for name in build.COMPONENTS if name not in lacking}
    monkeypatch.setattr(build, "build_all", lambda components, cores: {name: made[name] for name in components})  # noqa: ARG005
    well = CliRunner().invoke(app, ["build", "--json"])
    assert well.exit_code == 0, well.output
    assert json.loads(well.stdout)["not_built"] == {"vendor/cuda": "nvcc is missing"}
    made["torch"] = TareError("planted")
    ill = CliRunner().invoke(app, ["build", "--json"])
    assert ill.exit_code == 1
    said = json.loads(ill.stdout)
    assert said["not_built"]["torch"] == "planted"
    assert said["folders"]["frames"] == str(tmp_path / "frames")


def test_cmake_s_error_is_told_with_what_it_is_about() -> None:
    log = "-- ok\nCMake Error in a/CMakeLists.txt:\n  no such thing:\n  as this\n\n\nCMake Error: other\n"
    assert build._first_error(log) == "CMake Error in a/CMakeLists.txt: no such thing: as this"
    assert build._first_error("x.cpp:3: error: no\nmore\n") == "x.cpp:3: error: no"
    assert build._first_error("silence\n") == "see the log"


def test_a_build_belongs_to_the_gpus_it_was_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for wanted in ("80", "90", "80;90"):
        monkeypatch.setenv("CUDAARCHS", wanted)
        keys.add(build.build_key("vendor/cuda"))
    assert len(keys) == 3


def test_the_key_is_worked_out_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    build._key_of_this_process.cache_clear()

    def answer(component: str) -> str:
        asked.append(component)
        return "key"

    monkeypatch.setattr(build, "build_key", answer)
    folders = {build.build_folder("frames") for _ in range(3)}
    build._key_of_this_process.cache_clear()
    assert {folder.name for folder in folders} == {"frames-key"}
    assert asked == ["frames"]


def test_a_build_belongs_to_the_torch_that_it_was_linked_with(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {component: build.build_key(component) for component in TWO}
    monkeypatch.setattr(build, "torch_folder", lambda: Path("/another/environment/torch"))
    after = {component: build.build_key(component) for component in TWO}
    assert (before["torch"] != after["torch"], before["frames"] == after["frames"]) == (True, True)


def test_a_build_belongs_to_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.build_key("frames")
    monkeypatch.setenv("CXXFLAGS", "-O0")
    assert build.build_key("frames") != before


def test_a_compiler_that_is_named_and_not_there_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "CXX=no-such-compiler is no program here" in str(build.missing_tools("frames"))


def test_a_build_that_gives_no_program_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_run", lambda _, work: work.mkdir(parents=True, exist_ok=True))
    made = build.build_all(["frames"], cores=1)["frames"]
    assert "the build gave no libtare-frames.so, tare-descend" in str(made)
    assert not build.build_folder("frames").exists()


def test_what_is_left_of_a_build_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(_: list[str], work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        for program in build.COMPONENTS["frames"]:
            (work / program).touch()

    monkeypatch.setattr(build, "_run", make)
    left = build.build_folder("frames")
    left.mkdir(parents=True)
    (left / "libtare-frames.so").touch()
    assert build.build_all(["frames"], cores=1) == {"frames": left}
    assert (left / "tare-descend").exists()
