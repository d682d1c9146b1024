"""Builds side by side: how many at once, with how many compilers each, and what a failure leaves."""

import threading
from pathlib import Path

import pytest

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
    built: list[str] = []

    def fail_first(component: str, folder: Path, jobs: int) -> None:  # noqa: ARG001
        if component == "torch":
            raise TareError("planted")
        built.append(component)

    monkeypatch.setattr(build, "_build", fail_first)
    with pytest.raises(TareError, match="planted"):
        build.build_all(TWO, cores=1)
    assert built == ["frames"]


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
