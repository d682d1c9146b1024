"""What tare's own traces say of the memory that a program held before the first event
(tare.worker.resident)."""

from typing import Any, Literal, get_args

import msgspec

from tare.trace.tables import Trace

Kind = Literal["resident", "weights", "optimizer state", "gradients", "activations", "workspace", "temporary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BEFORE = "before the trace began"
_KNOWN: tuple[Kind, ...] = ("weights", "optimizer state")


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Memory alive at the peak, by the module or the operator that allocated it; `blocks` is 0 where that was
    before the trace began."""

    where: str
    kind: Kind
    bytes: int
    blocks: int


class Known(msgspec.Struct, frozen=True):
    """Bytes by kind, and of each kind those of its modules, as far as they are named."""

    sizes: dict[Kind, int] = {}
    modules: dict[Kind, dict[str, int]] = {}

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    def divide(self, by_kind: dict[Kind, int]) -> list[Owner]:
        """Takes from what is resident what it is known to be, and says whose all of it is."""
        owners = []
        for kind, size in self.sizes.items():
            part = min(size, by_kind["resident"])
            by_kind[kind] += part
            by_kind["resident"] -= part
            named = self.modules.get(kind, {}) if part == size else {}
            owners += [Owner(where=name, kind=kind, bytes=n, blocks=0) for name, n in named.items()]
            if (rest := part - sum(named.values())) > 0:
                owners.append(Owner(where="other modules" if named else BEFORE, kind=kind, bytes=rest, blocks=0))
        if by_kind["resident"] > 0:
            owners.append(Owner(where=BEFORE, kind="resident", bytes=by_kind["resident"], blocks=0))
        return owners


def known_of(trace: Trace, host: bool) -> Known:
    """Of the device that the program ran on, if that is the one asked for."""
    marks = trace.metadata.get("tare_profiled")
    found = marks.get("resident") if isinstance(marks, dict) else None
    if not isinstance(found, dict) or (found.get("device", "cuda") == "cpu") != host:
        return Known()
    modules = found.get("modules")
    return Known(
        {kind: found[kind] for kind in _KNOWN if _is_size(found.get(kind))},
        {kind: _named(modules.get(kind)) for kind in _KNOWN} if isinstance(modules, dict) else {},
    )


def _named(sizes: Any) -> dict[str, int]:
    return {str(name): n for name, n in sizes.items() if _is_size(n)} if isinstance(sizes, dict) else {}


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 62
