"""One direction of flow: nothing on the left imports anything on its right, and files stay small."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tare"

# Folder -> the folders it may import. Left of the arrow in DESIGN.md comes first.
ALLOWED: dict[str, set[str]] = {
    "cases": set(),
    "stats": set(),
    "records": {"cases", "stats"},
    "workloads": set(),
    "native": set(),
    "lowering": {"cases", "workloads"},
    "rungs": {"cases", "workloads", "native", "lowering"},
    "measure": {"records", "stats"},
    "data": set(),
    "execute": {"cases", "records", "workloads", "rungs", "measure", "data"},
    "frames": {"cases", "records", "stats", "native", "execute"},
    "foreign": set(),
    "store": {"cases", "records", "foreign"},
    "trace": {"cases", "records", "stats", "measure", "execute"},
    "findings": {"records", "stats", "trace"},
    "guard": {"cases", "records", "stats", "store", "execute", "workloads", "foreign"},
    "report": {
        "cases",
        "records",
        "stats",
        "workloads",
        "rungs",
        "measure",
        "execute",
        "trace",
        "findings",
        "guard",
        "frames",
    },
    "export": {"cases", "records", "report", "trace", "findings"},
    "cli": {"cases", "measure", "native", "report", "export", "trace", "guard", "frames"},
}
# Single files at the top: errors, home and plug-ins are for everyone; the others are called by the CLI alone.
SHARED = {"errors", "home", "plugins", "__init__"}


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
def test_nothing_imports_to_its_right(folder: str) -> None:
    allowed = ALLOWED[folder] | SHARED | {folder}
    if folder == "cli":
        allowed |= {"session", "survey", "stored", "explain", "diff", "coverage", "guard_session", "prove"}
    for path in (SOURCE / folder).rglob("*.py"):
        assert imports(path) <= allowed, f"{path.name} imports {imports(path) - allowed}"


def test_every_folder_has_its_place() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ALLOWED)


def test_files_stay_small() -> None:
    long = {str(p): n for p in SOURCE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 300}
    assert not long
