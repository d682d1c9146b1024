"""Which profiles of a check are kept, and until when. They are planted; tests/faults profiles for real."""

from pathlib import Path
from typing import Any

import pytest
from builders import make_case

from tare.commands import check_profiles
from tare.errors import TareError
from tare.guard.changes import CallChange, CaseChange, Report

CASES = [make_case(batch=batch).key for batch in (1, 2)]
FOUND = [CallChange(kind="kernel", name="sin", status="appeared", before_calls=0, after_calls=1, after_s=1e-6)]
LEFT = {"before0", "now0", "before1", "now1", "before0-now0", "before1-now1"}


class Profiler:
    """Leaves a file for each profile, unless it is there; fails at the file that `error` is for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, list[str]()
        self.error: tuple[str, BaseException] | None = None

    def __call__(self, _: Any, __: Any, name: str, **___: Any) -> Any:
        if self.error and self.error[0] == name:
            raise self.error[1]
        path = self.folder / name
        if not path.exists():
            path.touch()
            self.made.append(name)
        return path, path

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiler:
    made = Profiler(tmp_path)
    monkeypatch.setattr(check_profiles, "profile_case", made)
    monkeypatch.setattr(check_profiles, "read_context", lambda path: path)
    monkeypatch.setattr(check_profiles, "step_call_changes", lambda *_: list(FOUND))
    monkeypatch.setattr(check_profiles, "differences_path", lambda *records: tmp_path / "-".join(records))
    return made


def report() -> Report:
    cases = [
        CaseChange(case=key, state="compared", leaks=["it grows"], records=(f"before{i}", f"now{i}"))
        for i, key in enumerate(CASES)
    ]
    return Report(a="a", b="b", created="", cases=cases)


def add(found: Report) -> None:
    side: Any = (None, None)
    check_profiles.add_profiles(found, [side, side], lambda _: None)


def test_one_profile_a_side_is_kept(profiler: Profiler) -> None:
    add(report())
    assert profiler.kept() == LEFT
    assert len(profiler.made) == 2 * 2 * check_profiles.PROFILES


def test_a_second_report_of_a_check_profiles_nothing(profiler: Profiler, tmp_path: Path) -> None:
    add(report())
    made = len(profiler.made)
    again = report()
    add(again)
    assert len(profiler.made) == made
    assert [case.call_changes for case in again.cases] == [FOUND, FOUND]
    (tmp_path / "before1-now1").write_text("[{]")
    add(report())
    assert len(profiler.made) == made + 2 * (check_profiles.PROFILES - 1), "what cannot be read is found anew"
    assert profiler.kept() == LEFT


def test_an_interrupted_check_profiles_nothing_twice(profiler: Profiler) -> None:
    profiler.error = ("before1-2", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        add(report())
    profiler.error = None
    add(report())
    assert len(profiler.made) == len(set(profiler.made)) == 2 * 2 * check_profiles.PROFILES
    assert profiler.kept() == LEFT


def test_what_cannot_be_profiled_is_told_and_leaves_nothing(profiler: Profiler) -> None:
    profiler.error = ("now0-1", TareError("no trace today"))
    found = report()
    add(found)
    assert found.notes == [f"{CASES[0]} could not be profiled: no trace today"]
    assert profiler.kept() == LEFT - {"before0-now0"}
