"""FILE.pt2 from somebody else: it is read, and no code in it is run."""

import io
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tare.cases.source import read_target
from tare.errors import BadInput
from tare.workloads.own.exported import ExportedModel
from tare.workloads.own.exported_file import is_formula, load_exported


class Doubled(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]).reshape(-1, 2)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a dynamic batch, so that the file has formulas."""
    path = tmp_path_factory.mktemp("exported") / "program.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(Doubled(), (torch.randn(4, 6),), dynamic_shapes=({0: batch},))
    torch.export.save(exported, str(path))
    return path


def changed(path: Path, into: Path, part: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of an archive with one part of it changed."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(into, "w") as other:
        for name in archive.namelist():
            data = archive.read(name)
            other.writestr(name, change(data) if part in name else data)
    return into


def test_a_program_with_a_dynamic_size_is_loaded(program: Path) -> None:
    loaded = load_exported(str(program)).module(check_guards=False)
    x = torch.randn(5, 6)
    assert torch.equal(loaded(x), Doubled()(x))


class Command:
    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.made),)


def test_a_pickled_command_in_a_program_is_not_run(program: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    inputs = io.BytesIO()
    torch.save(((torch.randn(4, 6),), {"x": Command(made)}), inputs)
    path = changed(program, tmp_path / "evil.pt2", "sample_inputs", lambda _: inputs.getvalue())
    with pytest.raises(BadInput, match="pickled objects besides tensors"):
        ExportedModel(read_target(str(path))).program  # noqa: B018 - loads it
    assert not made.exists()


def test_python_in_place_of_a_size_is_not_run(program: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    code = f"__import__('os').mkdir('{made}')"

    def plant(text: bytes) -> bytes:
        planted, count = re.subn(rb'"expr_str": "[^"]*"', f'"expr_str": "{code}"'.encode(), text)
        assert count
        return planted

    path = changed(program, tmp_path / "evil.pt2", "models/model.json", plant)
    with pytest.raises(BadInput, match="is no formula"):
        ExportedModel(read_target(str(path))).program  # noqa: B018 - loads it
    assert not made.exists()


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("s77", True),
        ("2*s0 + 1", True),
        ("FloorDiv(s0 - 1, 2)", True),
        ("Eq(Mod(s0, 2), 0)", True),
        ("(s0 - 1)//2 >= 0", True),
        ("-oo", True),
        ("Symbol('s77', positive=True, integer=True)", True),
        ("Symbol('os.x')", False),
        ("exec(x)", False),
        ("chr(65)", False),
        ("'some text'", False),
        ("s0.func", False),
        ("[x for x in y]", False),
        ("lambda: 1", False),
        ("sympify(s0)", False),
        ("__builtins__", False),
        ("Max(1, evaluate=s0)", False),
        ("(" * 10_000, False),
        ("s0 s1", False),
    ],
)
def test_only_arithmetic_is_a_formula(text: str, allowed: bool) -> None:
    assert is_formula(text, {"FloorDiv": None, "Mod": None}) is allowed
