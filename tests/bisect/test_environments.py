"""Each commit's build has an environment of its own; a candidate gets this very tare, wherever it came from."""

import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from candidates import repository, wheel

import tare
from tare.bisect.journal import BisectJournal
from tare.bisect.process import CannotRun, Done, run_vector
from tare.bisect.request import Asked, make_spec
from tare.bisect.this_tare import packed, still_needed, this_tare
from tare.bisect.worktrees import Place, Places
from tare.errors import BadInput

# As an installer does: a module into the packages of the interpreter that runs it.
INSTALL = "import sysconfig, shutil; shutil.copy('cost', sysconfig.get_paths()['purelib'] + '/plantedcost.py')"
KEY = "mlp/eager/infer/cpu/fp32/batch=8/feed=device,layout=contiguous"
READ = "import numpy, tare, plantedcost; print(plantedcost.COST, tare.__file__)"


def read(place: Place) -> list[str]:
    return run_vector([place.python, "-c", READ], place.folder, place.environment, 120).output.split()


def test_what_a_build_installs_is_its_commits_alone(tmp_path: Path) -> None:
    hashes = repository(tmp_path / "repo", ["COST = 1", "COST = 2"])
    spec = make_spec(
        Asked(command="true", repo=tmp_path / "repo", good=hashes[0], bad="main", build=[f'python -c "{INSTALL}"'])
    )
    places = Places(spec, tmp_path / "places")
    first, second = places.get(0), places.get(1)
    assert [read(place)[0] for place in (first, second)] == ["1", "2"], "both built, then both read"
    assert Path(read(first)[1]).samefile(tare.__file__), "the packages of the interpreter are seen behind its own"
    here = subprocess.run([sys.executable, "-c", "import plantedcost"], capture_output=True)
    assert here.returncode == 1, "and nothing was installed there"


def test_pip_in_a_build_is_the_environments_own(tmp_path: Path) -> None:
    wheel(tmp_path, "1.1", 3.5)
    hashes = repository(tmp_path / "repo", ["1", "2"])
    build = f"pip install --quiet --no-index --disable-pip-version-check --find-links {tmp_path} slowpoke"
    spec = make_spec(Asked(command="true", repo=tmp_path / "repo", good=hashes[0], bad="main", build=[build]))
    place = Places(spec, tmp_path / "places").get(0)
    code = "import slowpoke; print(slowpoke.__file__)"
    found = run_vector([place.python, "-c", code], place.folder, place.environment, 120).output
    assert str(tmp_path / "places") in found


def install(archive: Path, folder: Path) -> None:
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(archive)], check=True, timeout=120)


def test_an_installed_package_is_packed_again_as_it_was(tmp_path: Path) -> None:
    wheel(tmp_path, "1.1", 3.5)
    (original,) = tmp_path.glob("*.whl")
    install(original, tmp_path / "first")
    (installed,) = distributions(path=[str(tmp_path / "first")])
    (tmp_path / "again").mkdir()
    again = packed(installed, tmp_path / "again")
    assert again.name == original.name
    with zipfile.ZipFile(original) as a, zipfile.ZipFile(again) as b:
        assert sorted(b.namelist()) == sorted(a.namelist())
    install(again, tmp_path / "second")
    assert (tmp_path / "second" / "slowpoke.py").read_text() == "COST = 3.5\n"


def test_a_checkout_is_installed_from_its_folder(tmp_path: Path) -> None:
    assert (Path(this_tare(tmp_path)) / "pyproject.toml").exists()


def test_what_is_packed_is_the_tare_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not another that is installed elsewhere, as this environment's is; where none is beside it, it says so."""
    packages = tmp_path / "lib" / "site-packages"
    wheel(tmp_path, "1.1", 3.5)
    monkeypatch.setattr(tare, "__file__", str(packages / "tare" / "__init__.py"))
    with pytest.raises(CannotRun, match="does not say what tare-bench is"):
        this_tare(tmp_path)
    install(next(tmp_path.glob("*.whl")), packages)
    monkeypatch.setattr("tare.bisect.this_tare.NAME", "slowpoke")
    (tmp_path / "made").mkdir()
    assert Path(this_tare(tmp_path / "made")).name == "slowpoke-1.1-py3-none-any.whl"


def test_what_a_candidate_installed_is_not_replaced_for_tare() -> None:
    """An older torch than tare asks for is the candidate: pip would quietly put the newest in its place."""
    needed = still_needed("torch==1.0\nNumPy==1.26.0\nnvidia_ml_py==12.0\npip==24.0\n")
    names = [one.partition(">=")[0].lower() for one in needed]
    assert {"scipy", "msgspec", "sqlalchemy"} <= set(names)
    assert not {"torch", "numpy", "nvidia-ml-py"} & set(names)


def test_tare_is_installed_behind_the_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def note(command: list[str], folder: Path, environment: object, timeout: float) -> Done:  # noqa: ARG001
        ran.append(command)
        return Done("torch==1.0\n" if "list" in command else "", 0.0)

    monkeypatch.setattr("tare.bisect.worktrees.run_vector", note)
    spec = make_spec(
        Asked(case=KEY, good="1.0", bad="1.1", versions=["1.0", "1.1"], install=["pip install torch=={}"])
    )
    Places(spec, tmp_path).get(0)
    asked, _, others, itself = ran
    assert asked[1:] == ["install", "torch==1.0"]
    assert "--constraint" in others
    assert Path(others[others.index("--constraint") + 1]).read_text() == "torch==1.0\n"
    assert not any(word.startswith("torch") for word in others)
    assert "--no-deps" in itself
    Places(spec, tmp_path).get(0)
    assert len(ran) == 4, "it is built once"
    monkeypatch.setattr("tare.bisect.worktrees.tare_mark", lambda: "another")
    Places(spec, tmp_path).get(0)
    assert ran[4:] == ran[1:4], "another tare is brought there, and the candidate stays as it is"


def test_what_another_tare_measured_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labels").write_text("1\n2\n")
    by_tare = make_spec(Asked(case=KEY, labels=tmp_path / "labels"))
    by_command = make_spec(Asked(command="true", labels=tmp_path / "labels"))
    for spec, folder in ((by_tare, tmp_path / "a"), (by_command, tmp_path / "b")):
        BisectJournal(folder, spec, resume=False).__exit__(None, None, None)
        BisectJournal(folder, spec, resume=True).__exit__(None, None, None)
    monkeypatch.setattr("tare.bisect.journal.tare_mark", lambda: "another")
    with pytest.raises(BadInput, match="was measured by another tare than this; run without --resume"):
        BisectJournal(tmp_path / "a", by_tare, resume=True)
    BisectJournal(tmp_path / "b", by_command, resume=True).__exit__(None, None, None)
