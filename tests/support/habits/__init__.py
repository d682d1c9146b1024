"""Programs with one bad habit each, and their twins without it: what the findings must see, and must not.

Each is a function of the device that gives the habit's step and the remedied one. They re-create the issues and
the optimisations of the TorchBench paper (sections 4.1 and 4.2) and the other habits that tare knows.
"""

from habits import compiling, computing, keeping, moving, waiting, worsening  # noqa: F401 - they register themselves
from habits.base import HABITS, Habit, Step

__all__ = ["HABITS", "Habit", "Step"]
