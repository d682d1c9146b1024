"""This very tare, as something that pip can install: its checkout, or a wheel made of its installed files."""

import base64
import hashlib
import re
import tomllib
import zipfile
from functools import cache
from importlib.metadata import Distribution, distributions, requires
from pathlib import Path, PurePosixPath

import tare
from tare.bisect.process import CannotRun

NAME = "tare-bench"
# What an installer writes about its own work, of which a new installation writes its own.
_NAME = re.compile(r"[A-Za-z0-9._-]+")
INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def this_tare(folder: Path) -> str:
    """A path for pip; a wheel is made in `folder`. Not the name and version: no index need have them, and what was
    installed from a folder or a repository may have moved on since."""
    root = Path(tare.__file__).resolve().parents[2]
    if (root / "pyproject.toml").exists():
        return str(root)
    # Beside the very files that run: another tare may be installed further along the path.
    beside = Path(tare.__file__).resolve().parents[1]
    installed = next(iter(distributions(name=NAME, path=[str(beside)])), None)
    if installed is None:
        raise CannotRun(f"this tare cannot be installed for a candidate: {beside} does not say what {NAME} is")
    try:
        return str(packed(installed, folder))
    except OSError as error:
        raise CannotRun(f"this tare cannot be packed for a candidate: {error}") from None


@cache
def tare_mark() -> str:
    """What tells this tare from another of the same version: its files."""
    package = Path(tare.__file__).resolve().parent
    told = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            told.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return told.hexdigest()[:16]


def still_needed(installed: str) -> list[str]:
    """The requirements of this tare that an environment does not meet by any version, given what `pip list
    --format=freeze` says of it. What the user's own command installed is what is bisected: it is left alone, even
    where tare asks for a newer one, for which pip would quietly put another in its place."""
    there = {_canonical(line.partition("==")[0]) for line in installed.splitlines()}
    return [needed for needed in _requirements() if _canonical(_NAME.match(needed)[0]) not in there]  # type: ignore[index]


def _requirements() -> list[str]:
    checkout = Path(tare.__file__).resolve().parents[2] / "pyproject.toml"
    if checkout.exists():
        listed: list[str] = tomllib.loads(checkout.read_text())["project"]["dependencies"]
        return listed
    return [needed for needed in requires(NAME) or [] if "extra ==" not in needed]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def packed(installed: Distribution, folder: Path) -> Path:
    """An installed distribution as the wheel it came from (PEP 427): its files, without what was made of them."""
    name = installed.metadata["Name"].replace("-", "_")
    wheel = folder / f"{name}-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(str(path) for path in installed.files or []):
            if not _belongs(PurePosixPath(path)):
                continue
            content = Path(str(installed.locate_file(path))).read_bytes()
            file.writestr(path, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
        if not record:
            raise OSError(f"nothing of {name} is installed")
        listed = f"{name}-{installed.version}.dist-info/RECORD"
        file.writestr(listed, "".join([*record, f"{listed},,\n"]))
    return wheel


def _belongs(path: PurePosixPath) -> bool:
    """Scripts stand outside (..) and are made anew of the entry points, compiled files of the sources."""
    information = path.parent.name.endswith(".dist-info") and path.name in INSTALLERS
    return ".." not in path.parts and "__pycache__" not in path.parts and not information
