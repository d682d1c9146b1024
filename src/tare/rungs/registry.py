"""Finding rungs by name: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS."""

from tare.errors import unknown
from tare.rungs.base import Rung
from tare.system.plugins import load_plugins, refuse_a_second

# In the order in which a ladder shows them, the highest level of abstraction first.
_OWN = (
    "tare.rungs.torch.eager",
    "tare.rungs.torch.torchscript",
    "tare.rungs.torch.compile",
    "tare.rungs.torch.cudagraph",
    "tare.rungs.torch.aot",
    "tare.rungs.libtorch.rung",
    "tare.rungs.vendor.rung",
)
_rungs: dict[str, Rung] = {}


def rung(cls: type[Rung]) -> type[Rung]:
    """Registers the decorated class."""
    refuse_a_second("rung", cls.name, cls, _rungs.get(cls.name))
    _rungs[cls.name] = cls()
    return cls


def all_rungs() -> dict[str, Rung]:
    """Ours in the order of a ladder, whichever of their modules was imported first, then those of plug-ins."""
    load_plugins("tare.rungs", _OWN)
    order = {module: position for position, module in enumerate(_OWN)}
    return dict(sorted(_rungs.items(), key=lambda named: order.get(type(named[1]).__module__, len(_OWN))))


def split_name(name: str) -> tuple[str, str]:
    """A rung's name and variant."""
    base, _, variant = name.partition(":")
    return base, variant


def get_rung(name: str) -> Rung:
    """The rung of `name` or `name:variant`; BadInput names the valid ones."""
    known = all_rungs()
    base, variant = split_name(name)
    if base not in known:
        raise unknown("rung", name, every_name())
    if ":" in name and variant not in known[base].variants:
        raise unknown(f"variant of {base}", variant, known[base].variants)
    return known[base]


def every_name() -> list[str]:
    return [f"{r.name}:{v}" if v else r.name for r in all_rungs().values() for v in ("", *r.variants)]


def ladder() -> list[str]:
    """The rungs and variants of a ladder that names none."""
    return [name for name in every_name() if left_out(name) is None]


def left_out(name: str) -> str | None:
    """Why a rung is not in the default ladder, or None if it is."""
    base, variant = split_name(name)
    return all_rungs()[base].not_by_default.get(variant)
