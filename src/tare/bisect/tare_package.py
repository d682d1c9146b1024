"""The running tare as something that pip can install: its checkout, or a wheel made of its installed files."""

import base64
import hashlib
import re
import tomllib
import zipfile
from functools import cache
from importlib.metadata import Distribution, distributions, requires
from pathlib import Path, PurePosixPath

import tare
from tare.bisect.command import CandidateFailed

DISTRIBUTION = "tare-bench"
# Files of a .dist-info folder that the installer writes itself.
INSTALLER_FILES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_PROJECT_NAME = re.compile(r"[A-Za-z0-9._-]+")


def installable_tare(folder: Path) -> str:
    """A path for pip; a wheel is written to `folder`. The name and version would not do: no index need have them,
    and an installation from a folder or a repository may differ from the released version."""
    root = Path(tare.__file__).resolve().parents[2]
    if (root / "pyproject.toml").exists():
        return str(root)
    # Only beside the running files: another tare may be installed elsewhere on the path.
    packages = Path(tare.__file__).resolve().parents[1]
    installed = next(iter(distributions(name=DISTRIBUTION, path=[str(packages)])), None)
    if installed is None:
        raise CandidateFailed(f"cannot install this tare for a candidate: {packages} has no {DISTRIBUTION}")
    try:
        return str(make_wheel(installed, folder))
    except OSError as error:
        raise CandidateFailed(f"cannot pack this tare for a candidate: {error}") from None


@cache
def tare_fingerprint() -> str:
    """A hash of tare's files, which tells apart two tares of the same version."""
    package = Path(tare.__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def missing_requirements(installed: str) -> list[str]:
    """The requirements of tare that an environment does not have in any version, given `pip list --format=freeze`.

    Packages that the user's command installed are what is bisected. They are kept even where tare requires a newer
    one, which pip would otherwise install in their place.
    """
    names = {_canonical(line.partition("==")[0]) for line in installed.splitlines()}
    return [line for line in _requirements() if _canonical(_PROJECT_NAME.match(line)[0]) not in names]  # type: ignore[index]


def _requirements() -> list[str]:
    project = Path(tare.__file__).resolve().parents[2] / "pyproject.toml"
    if project.exists():
        dependencies: list[str] = tomllib.loads(project.read_text())["project"]["dependencies"]
        return dependencies
    return [line for line in requires(DISTRIBUTION) or [] if "extra ==" not in line]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def make_wheel(installed: Distribution, folder: Path) -> Path:
    """An installed distribution as the wheel it came from (PEP 427)."""
    name = installed.metadata["Name"].replace("-", "_")
    wheel = folder / f"{name}-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(str(path) for path in installed.files or []):
            if not _belongs_in_wheel(PurePosixPath(path)):
                continue
            content = Path(str(installed.locate_file(path))).read_bytes()
            file.writestr(path, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
        if not record:
            raise OSError(f"nothing of {name} is installed")
        record_path = f"{name}-{installed.version}.dist-info/RECORD"
        file.writestr(record_path, "".join([*record, f"{record_path},,\n"]))
    return wheel


def _belongs_in_wheel(path: PurePosixPath) -> bool:
    """Scripts are outside of the packages (..) and are made from the entry points, compiled files from the
    sources."""
    by_installer = path.parent.name.endswith(".dist-info") and path.name in INSTALLER_FILES
    return ".." not in path.parts and "__pycache__" not in path.parts and not by_installer
