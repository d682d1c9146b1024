"""What a bisection is asked to do, and how a user's command becomes an argument vector."""

import hashlib
import shlex
from collections.abc import Mapping
from typing import Literal

import msgspec

from tare.errors import BadInput

Kind = Literal["versions", "commits", "labels"]
Reading = Literal["output", "wall"]


class Candidate(msgspec.Struct, frozen=True):
    """One version, commit or label; `title` is what people know it by."""

    label: str
    title: str = ""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what is measured. Two bisections with equal specs share their journal and places."""

    kind: Kind
    candidates: list[Candidate]
    repo: str | None = None
    # Where the command runs that measures, so that a relative path in it means what it means to the user; with a
    # repository that is each candidate's worktree.
    folder: str | None = None
    install: list[str] = []
    build: list[str] = []
    command: str | None = None
    case: str | None = None
    metric: str = "gross"
    reading: Reading = "output"
    environment: dict[str, str] = {}
    python: str
    budget: float = 4.0
    timeout: float = 900.0
    build_timeout: float = 7200.0

    @property
    def fingerprint(self) -> str:
        said = msgspec.to_builtins(self)
        if self.folder is None:
            # Journals from before there was a folder are found again.
            del said["folder"]
        return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:12]

    @property
    def last(self) -> int:
        return len(self.candidates) - 1

    @property
    def has_own_python(self) -> bool:
        """Whether each candidate gets a virtual environment: what an --install or a --build may put into one must
        not be the next candidate's."""
        return bool(self.install or self.build)

    @property
    def is_layered(self) -> bool:
        """Whether that environment sees the packages of the interpreter: a build brings the repository's alone."""
        return not self.install


def vector(template: str, values: Mapping[str, str], option: str) -> list[str]:
    """A command as arguments: split like a shell would, and only then filled in, each argument for itself. Nothing
    in a label can become a second argument, let alone a second command."""
    try:
        parts = shlex.split(template)
    except ValueError as error:
        raise BadInput(f"{option} '{template[:80]}' cannot be split into arguments: {error}") from None
    if not parts:
        raise BadInput(f"{option} is empty")
    return [fill(part, values) for part in parts]


def fill(text: str, values: Mapping[str, str]) -> str:
    """{} and {label} are the candidate, {dir} its folder, {python} its interpreter; other braces stay."""
    # In one pass, so that a label which looks like a placeholder is left as it is.
    done, rest = "", text
    marks = {"{" + name + "}": value for name, value in {"": values["label"], **values}.items()}
    while rest:
        mark = next((mark for mark in marks if rest.startswith(mark)), None)
        done += marks[mark] if mark else rest[0]
        rest = rest[len(mark) if mark else 1 :]
    return done
