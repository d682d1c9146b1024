"""Flame graphs of a trace: for speedscope (https://www.speedscope.app/file-format-schema.json), or folded
stacks as flamegraph.pl reads them."""

from pathlib import Path
from typing import Any

import msgspec

from tare.report.files import write_whole
from tare.trace.flame import Flame

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_flame(flame: Flame, title: str, path: Path) -> None:
    """For speedscope if the name ends with .json, else folded."""
    if path.suffix == ".json":
        write_whole(path, msgspec.json.encode(speedscope(flame, title)).decode())
    else:
        write_whole(path, folded(flame))


def folded(flame: Flame) -> str:
    """A line for each stack with its nanoseconds; the first name says whose time it is."""
    lines = []
    for clock, stacks in zip(Flame._fields, flame, strict=True):
        for names, ns in stacks:
            # A semicolon divides the names.
            lines.append(f"{clock};{';'.join(name.replace(';', ',') for name in names)} {ns}")
    return "\n".join(lines) + "\n"


def speedscope(flame: Flame, title: str) -> dict[str, Any]:
    """A profile for the host and one for the device, with a sample for each stack."""
    frames: dict[str, int] = {}
    profiles = []
    for clock, stacks in zip(Flame._fields, flame, strict=True):
        weights = [ns for _, ns in stacks]
        samples = [[frames.setdefault(name, len(frames)) for name in names] for names, _ in stacks]
        profiles.append(
            {
                "type": "sampled",
                "name": f"{clock}: {title}",
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        )
    return {
        "$schema": SCHEMA,
        "name": title,
        "exporter": "tare",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
