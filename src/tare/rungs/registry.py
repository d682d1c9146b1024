"""Rungs by name: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS."""

from tare.cases.case import Case
from tare.errors import BadInput, unknown
from tare.rungs.base import Rung
from tare.system.plugins import load_plugins, refuse_a_second

# In the order of a ladder, from the highest level of abstraction to the lowest.
_OWN = (
    "tare.rungs.torch.eager",
    "tare.rungs.torch.torchscript",
    "tare.rungs.torch.compile",
    "tare.rungs.torch.cudagraph",
    "tare.rungs.torch.aot",
    "tare.rungs.libtorch.rung",
    "tare.rungs.vendor.rung",
    "tare.rungs.frameworks.jax.rung",
    "tare.rungs.frameworks.tensorflow.rung",
    "tare.rungs.frameworks.onnx.rung",
    "tare.rungs.frameworks.onnx.openvino",
)
_rungs: dict[str, Rung] = {}


def rung(cls: type[Rung]) -> type[Rung]:
    """Registers the decorated class."""
    refuse_a_second("rung", cls.name, cls, _rungs.get(cls.name))
    _rungs[cls.name] = cls()
    return cls


def all_rungs() -> dict[str, Rung]:
    """Ours in the order of a ladder, then those of plug-ins."""
    load_plugins("tare.rungs", _OWN)
    order = {module: position for position, module in enumerate(_OWN)}
    return dict(sorted(_rungs.items(), key=lambda named: order.get(type(named[1]).__module__, len(_OWN))))


def split_name(name: str) -> tuple[str, str]:
    """A rung's name and variant, without the environment that it runs in."""
    base, _, variant = name.partition("@")[0].partition(":")
    return base, variant


def environment_name(name: str) -> str:
    """What follows the @ of `eager@2.9.1`: a version, or the name of an environment; nothing for plain rungs."""
    return name.partition("@")[2]


def get_rung(name: str) -> Rung:
    """The rung of `name` or `name:variant`; BadInput names the valid ones."""
    known = all_rungs()
    base, variant = split_name(name)
    if base not in known:
        raise unknown("rung", name, every_name())
    if ":" in name.partition("@")[0] and variant not in known[base].variants:
        raise unknown(f"variant of {base}", variant, known[base].variants)
    return known[base]


def every_name() -> list[str]:
    return [f"{r.name}:{v}" if v else r.name for r in all_rungs().values() for v in ("", *r.variants)]


def ladder() -> list[str]:
    """The rungs and variants of a ladder that names none itself."""
    return [name for name in every_name() if excluded_by_default(name) is None]


def excluded_by_default(name: str) -> str | None:
    """Why a ladder that names no rungs excludes this one, or None."""
    base, variant = split_name(name)
    return all_rungs()[base].not_by_default.get(variant)


def optimisations_of(case: Case) -> list[str] | None:
    """What the rung of a case optimises; None for a rung that this installation does not have."""
    try:
        return list(get_rung(case.rung).optimisations(case))
    except BadInput:
        return None
