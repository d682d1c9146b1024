"""tare: what every layer of a deep-learning stack weighs.

The Python API, documented in docs/python.md. Its parts are imported when they are first used: `import tare` loads
neither torch nor numpy.
"""

__version__ = "0.1.0"

# Not typing's, whose import would be most of the time of this one. Type checkers take it for True all the same.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from tare.api.compare import SpeedComparison, compare
    from tare.api.explain import StepExplanation, explain
    from tare.api.ladder import MeasuredLadder, MeasuredRung, ladder
    from tare.api.measure import Measurement, measure
    from tare.api.stopwatch import stopwatch
    from tare.errors import BadInput, TareError

# Where each public name is defined.
_PUBLIC = {
    "BadInput": "tare.errors",
    "MeasuredLadder": "tare.api.ladder",
    "MeasuredRung": "tare.api.ladder",
    "Measurement": "tare.api.measure",
    "SpeedComparison": "tare.api.compare",
    "StepExplanation": "tare.api.explain",
    "TareError": "tare.errors",
    "compare": "tare.api.compare",
    "explain": "tare.api.explain",
    "ladder": "tare.api.ladder",
    # The folder of this name, which can be called: importing any module of it binds `tare.measure` to it.
    "measure": "tare",
    "stopwatch": "tare.api.stopwatch",
}

__all__ = [
    "BadInput",
    "MeasuredLadder",
    "MeasuredRung",
    "Measurement",
    "SpeedComparison",
    "StepExplanation",
    "TareError",
    "__version__",
    "compare",
    "explain",
    "ladder",
    "measure",
    "stopwatch",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _PUBLIC:
            raise AttributeError(f"module 'tare' has no attribute '{name}'")
        module = _PUBLIC[name]
        value = import_module(f"tare.{name}") if module == "tare" else getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
