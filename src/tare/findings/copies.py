"""Where copies between host and device are made, and which way they go."""

import numpy as np

from tare.findings.context import Scene
from tare.findings.finding import Place
from tare.trace.tables import DIRECTIONS, Integers


def copy_places(scene: Scene, copies: Integers) -> list[Place]:
    """Rows of device work by the place of the call that launched them, each direction for itself."""
    device = scene.trace.device
    found = []
    for way in np.unique(device.direction[copies]).tolist():
        mine = copies[device.direction[copies] == way]
        for where, calls in scene.places.of_calls(np.unique(device.call[mine])).items():
            works = mine[np.isin(device.call[mine], calls)]
            label = f"{where}: {DIRECTIONS[way]}" if way >= 0 else where
            found.append(Place(where=label, count=scene.per_step(len(works)), seconds=scene.device_s(works)))
    return found
