"""Studies by name: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS.

A plug-in's module calls `add_study` with the path of its TOML file; its package names the module under the entry
point `tare.studies`.
"""

from pathlib import Path

from tare.errors import BadInput, unknown
from tare.studies.study import Study, read_study
from tare.system.plugins import load_plugins

_OWN = ("abstraction", "lstm", "devices", "breakdown", "compilers", "coverage", "platforms", "regressions")
_files: dict[str, Path] = {name: Path(__file__).with_name(f"{name}.toml") for name in _OWN}


def add_study(path: str | Path) -> None:
    """Registers the study in a file, whose name it has."""
    path = Path(path)
    taken = _files.get(path.stem)
    if taken not in (None, path):
        raise BadInput(f"study '{path.stem}' of {path} is already one of {taken}: give it another name")
    _files[path.stem] = path


def study_names() -> list[str]:
    load_plugins("tare.studies", ())
    return list(_files)


def get_study(name: str) -> Study:
    """The study of this name, or in this file; BadInput names the valid ones."""
    if name.endswith(".toml"):
        return read_study(Path(name))
    names = study_names()
    if name not in names:
        raise unknown("study", name, names)
    return read_study(_files[name])


def all_studies() -> list[Study]:
    return [get_study(name) for name in study_names()]
