"""Where the model of a user comes from, and what a worker has found out about it."""

import ast
import re
import unicodedata
from pathlib import Path
from typing import Literal

import msgspec

from tare.cases.case import Count, InputsText, SourceDigest, WorkloadName
from tare.errors import BadInput

Kind = Literal["file", "hf", "timm", "torchvision", "exported", "onnx", "pickled"]
# Kinds that are named by a prefix: hf:gpt2.
PREFIXES: tuple[Kind, ...] = ("hf", "timm", "torchvision")
# Between a file and the name of what it defines.
OBJECT = "::"
SUFFIXES: dict[str, Kind] = {".pt2": "exported", ".onnx": "onnx"}
# A message that a file's model must be named lists at most so many, and reads so much of the file.
MOST_NAMES, MOST_BYTES = 12, 2**22
FORMS = "FILE.py::NAME, hf:NAME, timm:NAME, torchvision:NAME, FILE.pt2, FILE.onnx"


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the user names it. `inputs` and `loss` are what the options say: shapes, or FILE.py::FUNCTION."""

    kind: Kind
    # As the user wrote it.
    target: str
    # The name of the workload.
    name: WorkloadName
    # A file, or the name after the prefix.
    location: str
    object: str = ""
    shapes: tuple[str, ...] = ()
    inputs: str = ""
    loss: str = ""


class ModelDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker that imported the model tells the parent, which never imports it."""

    batch: Count
    # For the case's key. The digest is of the model's code; None where a version of a package says it all.
    inputs: InputsText | None = None
    digest: SourceDigest | None = None
    sizes: dict[str, int] = {}
    trains: bool = False
    # True for a callable that is a whole step.
    is_step: bool = False
    optimizer: str = "sgd"
    # Why the user's code turns parity off, or nothing.
    parity: str = ""
    # The packages it needs, and what cannot be run.
    requires: tuple[str, ...] = ()
    unsupported: dict[str, str] = {}
    # The size that counts the tokens of a sample, or their number.
    tokens: str | Count = ""


class OwnModel(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a workload of a user's model in any process."""

    source: ModelSource
    description: ModelDescription


def is_target(text: str) -> bool:
    """Whether a text names a user's model rather than a workload of the zoo."""
    return OBJECT in text or text.partition(":")[0] in PREFIXES or Path(text).suffix in (*SUFFIXES, ".py")


def read_target(
    target: str, shapes: tuple[str, ...] = (), inputs: str = "", loss: str = "", where: str = ""
) -> ModelSource:
    """The source that a target names. A file must exist; whether it can be imported, a worker will see."""
    place = f"{where}: " if where else ""
    prefix, colon, name = target.partition(":")
    location = name if prefix in PREFIXES and colon else ""
    kind: Kind
    attribute = ""
    if location and not name.startswith(":"):
        kind = next(kind for kind in PREFIXES if kind == prefix)
        # A configuration may be a file of the user.
        shown = f"{prefix}:{Path(name).parent.name or Path(name).stem}" if name.endswith(".json") else target
        if name.endswith(".json"):
            location = str(existing_file(name, f"{place}{target}"))
    elif OBJECT in target:
        kind = "file"
        file, _, attribute = target.rpartition(OBJECT)
        path = existing_file(file, f"{place}{target}")
        if path.suffix != ".py" or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", attribute):
            raise BadInput(f"{place}'{target[:120]}' is not FILE.py::NAME")
        location, shown = str(path), f"{path.name}{OBJECT}{attribute}"
    elif (suffix := Path(target).suffix) in SUFFIXES:
        kind = SUFFIXES[suffix]
        path = existing_file(target, f"{place}{target}")
        location, shown = str(path), path.name
    else:
        names = defined_names(existing_file(target, f"{place}{target}"))
        listed = f", where NAME is one of {', '.join(names[:MOST_NAMES])}" if names else ""
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        raise BadInput(f"{place}which model of {target[:120]}? Name it: {target[:120]}{OBJECT}NAME{listed}{more}")
    if shapes and inputs:
        raise BadInput("give --input (shapes) or --inputs (a function), not both")
    return ModelSource(
        kind=kind, target=target, name=workload_name(shown), location=location, object=attribute,
        shapes=shapes, inputs=function_of(inputs, "--inputs"), loss=function_of(loss, "--loss"),
    )  # fmt: skip


def workload_name(text: str) -> str:
    """The text as the name of a workload: letters lose their accents, and what may not be between the slashes of a
    key becomes a dash."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return re.sub(r"[^A-Za-z0-9_.:\-]", "-", plain).lstrip(".-:")[:120] or "model"


def function_of(text: str, option: str) -> str:
    """FILE.py::FUNCTION with the file's absolute path; nothing for nothing."""
    if not text:
        return ""
    file, separator, name = text.rpartition(OBJECT)
    if not separator or not file.endswith(".py") or not name.isidentifier():
        raise BadInput(f"{option} takes FILE.py::FUNCTION, not '{text[:120]}'")
    return f"{existing_file(file, f'{option} {text}')}{OBJECT}{name}"


def defined_names(path: Path) -> list[str]:
    """The classes and functions of a file, which is read and not run; nothing where it is no Python."""
    try:
        tree = ast.parse(path.read_bytes()[:MOST_BYTES])
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return []
    defined = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return [name for name in defined if not name.startswith("_")]


def existing_file(text: str, what: str) -> Path:
    path = Path(text).expanduser()
    if path.is_dir():
        raise BadInput(f"{what[:200]}: {text[:200]} is a folder: name a file in it, FILE.py{OBJECT}NAME")
    if not path.is_file():
        raise BadInput(f"{what[:200]}: there is no file {text[:200]}")
    return path.resolve()
