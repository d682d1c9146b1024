"""Where the ceilings of a machine are kept: a file a device and machine in TARE_HOME, written whole or not."""

import hashlib
from pathlib import Path

import msgspec

from tare.errors import BadInput, brief
from tare.records.environment import Environment
from tare.records.work import Peaks
from tare.system.home import VARIABLE, home, make_folder


def save_peaks(peaks: Peaks) -> Path:
    path = _path(peaks.device, peaks.environment)
    unfinished = make_folder(path.parent) / f"{path.stem}.part"
    try:
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(peaks), indent=1))
        unfinished.replace(path)
    except OSError as error:
        raise BadInput(f"cannot write {path} ({error.strerror}); set {VARIABLE}") from None
    return path


def load_peaks(device: str, environment: Environment) -> Peaks | None:
    """What was measured on this machine, with whatever software; None where nothing was."""
    return _read(_path(device, environment))


def peaks_of_gpu(name: str) -> Peaks | None:
    """The latest that were measured on a GPU of this name, on whatever machine: for a trace, which names its GPU
    and not its host. None where there are none, or no folder to look in: reading a trace needs none."""
    try:
        paths = sorted((home() / "peaks").glob("cuda*.json"))
    except BadInput:
        return None
    found = [peaks for path in paths if (peaks := _read(path)) and peaks.environment.machine.get("gpu") == name]
    return max(found, key=lambda peaks: peaks.created, default=None)


def _read(path: Path) -> Peaks | None:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Peaks)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        raise BadInput(f"{path} is not a file of peaks ({brief(error)}): remove it, then tare peaks") from None
    if found.version.partition(".")[0] != Peaks.__struct_defaults__[0].partition(".")[0]:
        raise BadInput(f"{path} has peaks of version {found.version[:20]}: remove it, then tare peaks")
    return found


def _path(device: str, environment: Environment) -> Path:
    machine = hashlib.sha256(msgspec.json.encode(environment.machine, order="sorted")).hexdigest()[:12]
    return home() / "peaks" / f"{device.replace(':', '-')}-{machine}.json"
