"""The layout that docs/architecture.md draws: each folder imports only folders below it, in one direction."""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tare"

# Folder -> the folders it may import, from the bottom to the top. `errors` is for everyone.
ALLOWED: dict[str, set[str]] = {
    folder: set(others.split())
    for folder, others in {
        "system": "",
        "cases": "system",
        "stats": "",
        "records": "cases stats system",
        "workloads": "cases system",
        "protocol": "cases records",
        "measure": "records stats protocol system",
        "rungs": "cases records workloads protocol measure system",
        "worker": "cases records workloads protocol measure rungs system",
        "store": "cases records system",
        "execute": "cases records stats workloads protocol measure rungs worker system",
        "trace": "records stats system",
        "findings": "records trace system",
        "guard": "cases records stats store execute system",
        "bisect": "cases records stats rungs execute guard system",
        "studies": "cases records stats store trace guard system",
        "report": "cases records stats workloads protocol measure rungs execute trace findings guard bisect"
        " studies system",
        "site": "cases records stats store trace findings guard report system",
        "commands": "cases records stats workloads protocol measure rungs execute store trace findings guard"
        " bisect studies report site system",
        "api": "cases records stats workloads protocol measure rungs worker execute store trace findings guard"
        " report commands system",
        "cli": "cases records workloads measure rungs store trace guard bisect studies report site commands"
        " system",
    }.items()
}
TOP_LEVEL = {"errors", "__init__"}


def imported_folders(path: Path) -> set[str]:
    folders = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        folders |= {module.split(".")[1] for module in modules if module.startswith("tare.")}
    return folders


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_folders_below_it(folder: str) -> None:
    for path in (SOURCE / folder).rglob("*.py"):
        beyond = imported_folders(path) - ALLOWED[folder] - TOP_LEVEL - {folder}
        assert not beyond, f"{path.relative_to(SOURCE)} imports {beyond}"


def test_the_layout_has_no_circle() -> None:
    below: set[str] = set()
    for folder, others in ALLOWED.items():
        assert others <= below, f"{folder} imports what stands above it: {others - below}"
        below.add(folder)


def test_every_folder_is_in_the_layout() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ALLOWED)


def test_a_class_name_has_one_meaning() -> None:
    names: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        if "networks" not in path.parts:
            names.update(
                node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
            )
    assert not {name: count for name, count in names.items() if count > 1}
