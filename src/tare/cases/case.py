"""A case: one point to measure. Frozen, hashable, with a stable text key that can be read back."""

import re
from typing import Annotated, Any, Literal, get_args

import msgspec

from tare.errors import BadInput, brief, unknown

Mode = Literal["infer", "train"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16"]
Feed = Literal["device", "pinned", "pageable"]
Layout = Literal["contiguous", "channels-last"]
Optimizer = Literal["sgd", "adam", "adamw"]

MODES: tuple[str, ...] = get_args(Mode)
PRECISIONS: tuple[str, ...] = get_args(Precision)
FEEDS: tuple[str, ...] = get_args(Feed)
LAYOUTS: tuple[str, ...] = get_args(Layout)
OPTIMIZERS: tuple[str, ...] = get_args(Optimizer)

# What may stand between the key's slashes, so that a key is a path and never ambiguous. \Z, since $ would let
# a newline through at the end.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z"
RUNG = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*(:[A-Za-z0-9_][A-Za-z0-9_.\-]*)?\Z"
DEVICE = r"^[a-z]+(:[0-9]+)?\Z"

Name = Annotated[str, msgspec.Meta(pattern=NAME, max_length=80)]
RungName = Annotated[str, msgspec.Meta(pattern=RUNG, max_length=120)]
DeviceName = Annotated[str, msgspec.Meta(pattern=DEVICE, max_length=20)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**40)]


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workload on one rung, with everything that decides how long a step takes."""

    workload: Name
    rung: RungName
    mode: Mode = "infer"
    device: DeviceName = "cpu"
    precision: Precision = "fp32"
    batch: Count
    sizes: dict[Name, Count] = {}
    feed: Feed = "device"
    layout: Layout = "contiguous"
    optimizer: Optimizer | None = None
    threads: Count | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "sizes", dict(sorted(self.sizes.items())))
        if "batch" in self.sizes:
            raise ValueError("'batch' is a field of the case, not one of its sizes")
        if (self.optimizer is None) != (self.mode == "infer"):
            raise ValueError("a training case names its optimizer, an inference case has none")

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """The case as one path; equal cases have equal keys and `parse` reads it back."""
        return "/".join((self.workload, self.rung, *self._after_the_rung()))

    @property
    def ladder(self) -> str:
        """The key with the rung left open: the cases of one ladder share it."""
        return "/".join((self.workload, "*", *self._after_the_rung()))

    @property
    def asked(self) -> set[str]:
        """What it asks of a workload; a variant of a rung asks for the rung as well."""
        return {self.mode, self.precision, self.device_type, self.rung, self.rung.partition(":")[0]}

    @property
    def device_type(self) -> str:
        return self.device.partition(":")[0]

    def _after_the_rung(self) -> tuple[str, ...]:
        sizes = {"batch": self.batch, **self.sizes}
        settings: dict[str, object] = {"feed": self.feed, "layout": self.layout}
        if self.optimizer:
            settings["optimizer"] = self.optimizer
        if self.threads:
            settings["threads"] = self.threads
        return self.mode, self.device, self.precision, _pairs(sizes), _pairs(settings)

    @classmethod
    def parse(cls, key: str) -> "Case":
        """The case whose key this is; BadInput where it is not one."""
        parts = key.split("/")
        if len(parts) != 7:
            raise BadInput(
                f"'{key[:120]}' is not a case key: want workload/rung/mode/device/precision/sizes/settings"
            )
        sizes = {name: _count(name, text, key) for name, text in _split(parts[5], key)}
        fields: dict[str, Any] = dict(_split(parts[6], key))
        if "threads" in fields:
            fields["threads"] = _count("threads", fields["threads"], key)
        if "batch" not in sizes:
            raise BadInput(f"case key '{key[:120]}' names no batch")
        fields |= dict(zip(("workload", "rung", "mode", "device", "precision"), parts[:5], strict=True))
        fields |= {"batch": sizes.pop("batch"), "sizes": sizes}
        for name in fields:
            if name not in cls.__struct_fields__:
                raise unknown("setting", name, ("feed", "layout", "optimizer", "threads"), "case key")
        try:
            case = msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise BadInput(f"'{key[:120]}' is not a case key: {brief(error)}") from None
        if case.key != key:
            raise BadInput(f"'{key[:120]}' is not a stable case key: it would be written {case.key[:400]}")
        return case


def _pairs(values: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def _split(text: str, key: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (name and sep and value) for name, sep, value in pairs):
        raise BadInput(f"'{text[:80]}' in case key '{key[:120]}' is not a list of name=value")
    return [(name, value) for name, _, value in pairs]


def _count(name: str, text: str, key: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,12}", text):
        raise BadInput(f"{name}={text[:40]} in case key '{key[:120]}' is not a positive whole number")
    return int(text)
