"""Programs with one inefficiency each, and their fixed versions: what the rules must see, and must not.

Each is a function of the device that returns the inefficient step and the fixed one. They re-create the issues and
the optimisations of the TorchBench paper (sections 4.1 and 4.2) and the other inefficiencies that tare knows.
"""

from inefficiencies import (  # noqa: F401 - they register themselves
    compiling,
    computing,
    keeping,
    moving,
    transforming,
    waiting,
    worsening,
)
from inefficiencies.base import INEFFICIENCIES, Inefficiency, Step

__all__ = ["INEFFICIENCIES", "Inefficiency", "Step"]
