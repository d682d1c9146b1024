"""The store of peaks: in TARE_HOME one file for each device, machine, number of threads and set of variables."""

import hashlib
from pathlib import Path

import msgspec

from tare.errors import BadInput, brief
from tare.records.environment import Environment
from tare.records.work import Peaks
from tare.system.home import VARIABLE, home, make_folder
from tare.system.private_files import write_private

VERSION = Peaks.__struct_defaults__[0]


def save_peaks(peaks: Peaks) -> Path:
    path = _path(peaks.device, peaks.environment, peaks.threads)
    partial = make_folder(path.parent) / f"{path.stem}.part"
    try:
        write_private(partial, msgspec.json.format(msgspec.json.encode(peaks), indent=1))
        partial.replace(path)
    except OSError as error:
        raise BadInput(f"cannot write {path} ({error.strerror}); set {VARIABLE}") from None
    return path


def load_peaks(device: str, environment: Environment, threads: int | None = None) -> Peaks | None:
    """The peaks of this machine with any software; None where there are none. Those of other settings are better
    than none, and carry a caveat."""
    path = _path(device, environment, threads)
    exact = _read(path)
    if exact:
        return exact
    others = [peaks for other in path.parent.glob(_name(device, environment, "*")) if (peaks := _read(other))]
    newest = max(others, key=lambda peaks: peaks.created, default=None)
    if newest is None:
        return None
    measured, wanted = (count or "torch's default" for count in (newest.threads, threads))
    caveat = f"the peaks were measured with another number of threads ({measured}, not {wanted})"
    if newest.threads == threads:
        caveat = "the peaks were measured under other environment variables"
    return msgspec.structs.replace(newest, caveats=[*newest.caveats, caveat])


def peaks_of_gpu(name: str) -> Peaks | None:
    """The newest peaks of a GPU of this name on any machine, for a trace, which names its GPU but not its machine.
    None where there are none, or no home folder: reading a trace needs none."""
    try:
        paths = sorted((home() / "peaks").glob("cuda*.json"))
    except BadInput:
        return None
    known = [peaks for path in paths if (peaks := _read(path)) and peaks.environment.machine.get("gpu") == name]
    return max(known, key=lambda peaks: peaks.created, default=None)


def _read(path: Path) -> Peaks | None:
    try:
        peaks = msgspec.json.decode(path.read_bytes(), type=Peaks)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        raise BadInput(f"{path} is not a file of peaks ({brief(error)}): remove it, then tare peaks") from None
    if peaks.version != VERSION:
        raise BadInput(f"{path} has peaks of version {peaks.version[:20]}: remove it, then tare peaks")
    return peaks


def _path(device: str, environment: Environment, threads: int | None) -> Path:
    settings = {"threads": str(threads), **environment.flags}
    return home() / "peaks" / _name(device, environment, _digest(settings))


def _name(device: str, environment: Environment, settings: str) -> str:
    return f"{device.replace(':', '-')}-{_digest(environment.machine)}-{settings}.json"


def _digest(fields: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()[:12]
