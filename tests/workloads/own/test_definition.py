"""Users' models from files, in this process: what is built, drawn and described."""

import functools
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from own_models import write_project

from tare.cases.source import ModelSource, OwnModel, is_target, read_target
from tare.errors import BadInput
from tare.workloads.base import Workload
from tare.workloads.own import pickled
from tare.workloads.own.calls import is_step
from tare.workloads.own.files import installed_folders, load_object, source_digest
from tare.workloads.own.registry import _models, definition_of, register, sources_in
from tare.workloads.registry import no_workload

PAIRS = """
criterion = nn.CrossEntropyLoss()

def pair(batch=4):
    return torch.randn(batch, 3, 8, 8), torch.randint(0, 5, (batch,))

class Masked(Net):
    def forward(self, x, labels):
        return self.head(self.body(x)) * labels[:, None]

def pair_step(x, labels):
    return criterion(built(x), labels)

class Nearby(Net):
    def forward(self, x):
        import helpers
        return helpers.fail(x)

class Forgets(Net):
    def forward(self, x):
        self.head(self.body(x))

class Yields(Net):
    def forward(self, x):
        yield self.head(self.body(x))

class Leaves(Net):
    def forward(self, x):
        raise SystemExit(3)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    modules, path = set(sys.modules), list(sys.path)
    yield write_project(tmp_path)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name in ("nets", "widths", "package", "package.part", "package.model") or name.startswith("user_"):
            del sys.modules[name]
    _models.clear()


def source(path: Path, name: str, shapes: tuple[str, ...] = (), **more: str) -> ModelSource:
    return read_target(f"{path}::{name}", shapes, **more)


def described(path: Path, name: str, shapes: tuple[str, ...] = (), **more: str) -> Workload:
    own = source(path, name, shapes, **more)
    step = is_step(load_object(f"{own.location}::{own.object}"))
    description = definition_of(own, is_step=step).describe()  # type: ignore[attr-defined]
    return register(OwnModel(source=own, description=description))


def test_inputs_come_from_the_option_before_the_type_hint(project: Path) -> None:
    assert described(project, "Net", ("2x3x9x9",)).inputs_text == "Nx3x9x9"
    hinted = described(project, "Net")
    assert (hinted.batch, hinted.inputs_text) == (4, "Nx3x8x8")
    assert hinted.inputs(6, {}).args[0].shape == (6, 3, 8, 8)


def test_a_factory_with_inputs_and_loss_trains(project: Path) -> None:
    workload = described(project, "make_net", inputs=f"{project}::labelled", loss=f"{project}::cross_entropy")
    assert workload.trains
    batch = workload.inputs(3, {})
    model = workload.build({})
    loss = workload.loss(model(*batch.args), batch.target)
    assert loss.dim() == 0
    assert model.head.in_features == 6


@pytest.mark.parametrize("name", ["Net", "make_net", "built"])
def test_inputs_as_a_data_loader_gives_them_end_in_the_target(project: Path, name: str) -> None:
    project.write_text(project.read_text() + PAIRS)
    workload = described(project, name, inputs=f"{project}::pair", loss=f"{project}::criterion")
    assert (workload.trains, workload.batch) == (True, 4)
    batch = workload.inputs(3, {})
    assert [tensor.shape for tensor in batch.args] == [(3, 3, 8, 8)]
    assert batch.target.shape == (3,)
    assert workload.loss(workload.build({})(*batch.args), batch.target).dim() == 0
    # What the model is made of must not change what is drawn.
    assert torch.equal(batch.args[0], workload.inputs(3, {}).args[0])


def test_arguments_that_a_model_needs_are_no_target(project: Path) -> None:
    project.write_text(project.read_text() + PAIRS)
    workload = described(project, "Masked", inputs=f"{project}::pair", loss=f"{project}::criterion")
    assert len(workload.inputs(3, {}).args) == 2
    # Without a loss nothing needs a target.
    with pytest.raises(BadInput, match=r"Net fails on inputs of \[4, 3, 8, 8\], \[4\]: TypeError"):
        described(project, "Net", inputs=f"{project}::pair")
    # A step has its own loss.
    assert len(described(project, "pair_step", inputs=f"{project}::pair").inputs(3, {}).args) == 2


def test_a_model_without_a_loss_says_how_to_give_it_one(project: Path) -> None:
    assert "make_net has no loss to train with: --loss FILE.py::FUNCTION" in (
        described(project, "make_net", ("2x3x8x8",)).refusal(["train"]) or ""
    )


def test_an_instance_is_copied_and_has_the_same_weights_in_every_build(project: Path) -> None:
    workload = described(project, "built")
    first, second = workload.build({}), workload.build({})
    assert first is not second
    assert torch.equal(first.head.weight, second.head.weight)
    with torch.no_grad():
        first.head.weight.zero_()
    assert workload.build({}).head.weight.abs().sum() > 0


def test_inputs_follow_the_seed_although_the_file_draws_when_it_is_imported(project: Path) -> None:
    own = source(project, "make_net", inputs=f"{project}::labelled")
    workload = Workload("x", definition_of(own), "other", "", "", batch=2)
    first = workload.inputs(2, {})
    assert torch.equal(first.args[0], workload.inputs(2, {}).args[0])
    assert not torch.equal(first.args[0], workload.inputs(2, {}, variant=1).args[0])


def test_arguments_by_name(project: Path) -> None:
    workload = described(project, "Scores")
    assert workload.batch == 8
    assert workload.inputs_text == "example_inputs"
    batch = workload.inputs(5, {})
    assert workload.build({})(*batch.args)["scores"].shape == (5, 7)


def test_a_whole_step_is_seen_to_train_or_not(project: Path) -> None:
    train, infer = described(project, "train_step"), described(project, "infer_step")
    assert train.is_step
    assert (train.step_mode, train.optimizer) == ("train", "own")
    assert infer.step_mode == "infer"
    assert infer.batch == 2
    step = train.definition.open()
    assert set(step.modules) == {"built"}
    assert set(step.optimizers) == {"optimizer"}
    assert "schedule" in step.others
    again = train.definition.open()
    step.call()
    assert not torch.equal(step.modules["built"].head.weight, again.modules["built"].head.weight)


def test_declared_parity(project: Path) -> None:
    assert described(project, "Declared").parity_off == "it rounds at random"


@pytest.mark.parametrize(("text", "tokens"), [("", None), ("tokens_per_sample = 7\n", 21)])
def test_tokens_are_what_the_file_says(project: Path, text: str, tokens: int | None) -> None:
    project.write_text(project.read_text() + text)
    assert described(project, "Net").tokens_per_step(3, {}) == tokens
    assert described(project, "train_step").tokens_per_step(3, {}) == tokens


def test_tokens_are_a_number(project: Path) -> None:
    project.write_text(project.read_text() + "tokens_per_sample = 'length'\n")
    with pytest.raises(BadInput, match="tokens_per_sample = 'length': want a positive whole number"):
        described(project, "Net")


def test_the_digest_follows_every_file_of_the_user_and_no_other(project: Path) -> None:
    described(project, "Net")
    before = source_digest(project)
    (project.parent / "unrelated.py").write_text("X = 1\n")
    assert source_digest(project) == before
    (project.parent / "widths.py").write_text("WIDTH = 9\n")
    assert source_digest(project) != before


def test_the_files_of_a_baseline_are_in_its_folder(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    described(project, "make_net", inputs=f"{project}::labelled")
    monkeypatch.chdir(project.parent)
    base = tmp_path_factory.mktemp("base")
    with pytest.raises(BadInput, match=r"the baseline has no .*nets\.py"):
        sources_in(base)
    write_project(base)
    (moved,) = sources_in(base)
    assert moved.location == str(base / "nets.py")
    assert moved.inputs == f"{base / 'nets.py'}::labelled"
    assert moved.name == "nets.py::make_net"


def test_relative_imports_of_a_package_work(project: Path) -> None:
    package = project.parent / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("SIZE = 3\n")
    (package / "model.py").write_text(
        "from torch import nn\nfrom .part import SIZE\n\ndef make():\n    return nn.Linear(SIZE, 2)\n"
    )
    workload = described(package / "model.py", "make", ("5x3",))
    assert workload.name == "model.py::make"
    assert workload.build({}).in_features == 3


@pytest.mark.parametrize(
    ("name", "shapes", "text"),
    [
        ("Needs", (), "Needs needs arguments (width)"),
        ("Nothing", (), "nets.py has no 'Nothing' (it has Net, "),
        ("Score", (), "nets.py has no 'Score'; did you mean 'Scores'? (it has Scores, Net, "),
        ("not_a_model", (), "not_a_model is of type int"),
        ("make_net", (), "make_net has no inputs: say what it takes: --input 8x3x224x224"),
        ("Net", ("2x4x8x8",), "Net fails on inputs of [2, 4, 8, 8]: RuntimeError"),
        ("labelled", (), "labelled needs arguments (n)"),
    ],
)
def test_what_cannot_be_used_is_one_line(project: Path, name: str, shapes: tuple[str, ...], text: str) -> None:
    with pytest.raises(BadInput) as error:
        described(project, name, shapes)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("Forgets", "Forgets returns None: its forward must return"), ("Yields", "returns a generator")],
)
def test_a_model_that_returns_nothing_is_refused(project: Path, name: str, text: str) -> None:
    project.write_text(project.read_text() + PAIRS)
    with pytest.raises(BadInput, match=text):
        described(project, name, ("2x3x8x8",))


def test_the_line_of_an_error_is_one_of_the_users_files(project: Path) -> None:
    project.write_text(project.read_text() + PAIRS)
    (project.parent / "helpers.py").write_text("def fail(x):\n    return x.nothing\n")
    with pytest.raises(BadInput, match=r"AttributeError: .* \(helpers\.py, line 2\)$"):
        described(project, "Nearby", ("2x3x8x8",))
    with pytest.raises(BadInput, match=r"Leaves fails .*: it calls sys\.exit\(3\) \(nets\.py, line \d+\)$"):
        described(project, "Leaves", ("2x3x8x8",))
    # No line of the user's was passed, and none of torch's says more.
    with pytest.raises(BadInput, match=r"missing 1 required positional argument: 'labels'$"):
        described(project, "Masked", ("2x3x8x8",))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("x = (\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError: division by zero (nets.py, line 1)"),
        ("raise SystemExit(3)\n", "it calls sys.exit(3) (nets.py, line 1)"),
        ("import os\nos.chdir('/')\n", "nets.py has no 'Net'"),
    ],
)
def test_a_file_that_does_not_import_is_one_line(project: Path, content: str, text: str) -> None:
    project.write_text(content)
    folder = Path.cwd()
    with pytest.raises(BadInput) as error:
        described(project, "Net")
    assert text in str(error.value)
    assert Path.cwd() == folder


def test_packages_of_another_environment_are_no_code_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "other" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "user_package.py").write_text("def helper():\n    return 1\n")
    monkeypatch.syspath_prepend(packages)
    module = importlib.import_module("user_package")
    # `_installed` is cached for the process.
    monkeypatch.setattr(pickled, "_installed", lambda: tuple(map(Path, installed_folders())))
    assert not pickled.is_users(module.helper)


def test_a_function_around_one_of_c_is_followed_no_further() -> None:
    @functools.wraps(torch.Tensor.pow_)
    def power(*args: object) -> object:
        return args

    assert power in pickled.user_code(power)


@pytest.mark.parametrize(
    ("target", "own"),
    [
        ("a.py::B", True), ("hf:gpt2", True), ("timm:resnet50d", True), ("torchvision:vit_b_16", True),
        ("program.pt2", True), ("model.onnx", True), ("my.py", True),
        ("resnet50", False), ("@nlp", False), ("plan.toml", False),
    ],
)  # fmt: skip
def test_targets_are_told_from_workloads(target: str, own: bool) -> None:
    assert is_target(target) == own


@pytest.mark.parametrize(
    ("file", "name"),
    [("=m.py", "m.py::Net"), ("..a b.py", "a-b.py::Net"), ("é.py", "e.py::Net"), ("网.py", "py::Net")],
)
def test_any_name_of_a_file_gives_a_workload_that_can_be_in_a_key(file: str, name: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("")
    source = read_target(f"{tmp_path / file}::Net")
    assert source.name == name
    assert msgspec.convert(msgspec.to_builtins(source), ModelSource) == source


@pytest.mark.parametrize("target", ["missing.py::A", "missing.pt2", "missing.onnx", "hf:missing/config.json"])
def test_a_missing_file_is_named(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="there is no file"):
        read_target(target)


def test_a_file_without_a_name_asks_for_one_of_its_names(project: Path) -> None:
    with pytest.raises(BadInput, match=r"which model of .*NAME is one of Net, Needs, Scores"):
        read_target(str(project))
    project.write_text("x = (")
    with pytest.raises(BadInput, match=r"which model of .*::NAME$"):
        read_target(str(project))


@pytest.mark.parametrize("target", ["{}::Net", "{}.py"])
def test_a_folder_is_no_file(tmp_path: Path, target: str) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets.py").mkdir()
    with pytest.raises(BadInput, match=r"is a folder: name a file in it, FILE\.py::NAME"):
        read_target(target.format(tmp_path / "nets"))


def test_a_folder_or_a_file_of_another_kind_is_no_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "resnet5").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert str(no_workload("src")) == "'src' is a folder: name a file in it and its model, FILE.py::NAME"
    assert str(no_workload("notes.txt")).startswith("'notes.txt' is no model and no plan: want FILE.py::NAME, hf:")
    # What is probably a slip of the pen stays one.
    assert "did you mean 'resnet50'" in str(no_workload("resnet5"))
    assert str(no_workload("a" * 5000)).startswith("unknown workload 'aaa")


def test_a_part_of_a_name_finds_the_names_that_have_it() -> None:
    with pytest.raises(BadInput, match=r"the nearest of \d+: .*vit_b_16"):
        definition_of(read_target("torchvision:vit")).describe()  # type: ignore[attr-defined]
