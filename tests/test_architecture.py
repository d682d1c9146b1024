"""One direction of flow: nothing on the left imports anything on its right, and files stay small."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tare"

# Folder -> the folders it may import. Left of the arrow in DESIGN.md comes first.
ALLOWED: dict[str, set[str]] = {
    folder: set(others.split())
    for folder, others in {
        "cases": "",
        "stats": "",
        "records": "cases stats",
        "workloads": "",
        "native": "",
        "lowering": "cases workloads",
        "rungs": "cases workloads native lowering",
        "measure": "records stats",
        "data": "",
        "execute": "cases records workloads rungs measure data",
        "frames": "cases records stats native execute",
        "foreign": "",
        "store": "cases records foreign",
        "trace": "records stats",
        "findings": "records trace",
        "guard": "cases records stats store execute workloads foreign",
        "report": "cases records stats workloads rungs measure execute trace findings guard frames",
        "export": "records report trace findings",
        "verbs": "cases records workloads rungs measure data execute frames foreign store trace findings guard"
        " report",
        "cli": "cases measure native trace guard report export verbs",
    }.items()
}
# Single files at the top, for everyone.
SHARED = {"errors", "home", "locks", "plugins", "printable", "__init__"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("tare.")}
    return found


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_what_it_may_and_may_what_it_imports(folder: str) -> None:
    found: set[str] = set()
    for path in (SOURCE / folder).rglob("*.py"):
        beyond = imports(path) - ALLOWED[folder] - SHARED - {folder}
        assert not beyond, f"{path.name} imports {beyond}"
        found |= imports(path)
    assert found >= ALLOWED[folder], "a permission that nothing needs"


def test_every_folder_has_its_place() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ALLOWED)


@pytest.mark.parametrize("folder", [SOURCE, ROOT / "tests", ROOT / "benchmarks"], ids=lambda folder: folder.name)
def test_files_stay_small(folder: Path) -> None:
    long = {str(p): n for p in folder.rglob("*.py") if (n := len(p.read_text().splitlines())) > 300}
    assert not long
