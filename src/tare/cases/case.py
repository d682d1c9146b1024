"""A case: one point to measure. Frozen, hashable, with a stable text key that can be read back."""

import re
from typing import Annotated, Any, Literal

import msgspec

from tare.cases.tables import choices
from tare.errors import BadInput, brief

Mode = Literal["infer", "train"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16"]
Feed = Literal["device", "pinned", "pageable"]
Layout = Literal["contiguous", "channels-last"]
Optimizer = Literal["sgd", "adam", "adamw", "own"]

# The characters allowed between the slashes of a key, so that a key is an unambiguous path. \Z, because $ would
# also match before a newline at the end.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z"
WORKLOAD = r"^[A-Za-z0-9_][A-Za-z0-9_.:\-]*\Z"
# A rung, its variant, and the environment that it runs in: compile:max-autotune@2.9.1.
RUNG = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*(:[A-Za-z0-9_][A-Za-z0-9_.\-]*)?(@[A-Za-z0-9_][A-Za-z0-9_.+\-]*)?\Z"
DEVICE = r"^[a-z]+(:[0-9]+)?\Z"

Name = Annotated[str, msgspec.Meta(pattern=NAME, max_length=80)]
# The name of a user's model has colons: my.py::MyModel, hf:gpt2.
WorkloadName = Annotated[str, msgspec.Meta(pattern=WORKLOAD, max_length=120)]
# Of a user's model: the shapes of its inputs, and the digest of its code.
InputsText = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:<+\-]*\Z", max_length=200)]
SourceDigest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}\Z")]
RungName = Annotated[str, msgspec.Meta(pattern=RUNG, max_length=120)]
DeviceName = Annotated[str, msgspec.Meta(pattern=DEVICE, max_length=20)]
Count = Annotated[
    int, msgspec.Meta(ge=1, le=2**40, description="a number of things", extra_json_schema={"unit": "count"})
]


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workload on one rung, with everything that decides how long a step takes.

    Grids, keys, the columns of a store and the fields of queries follow from these fields and their order.
    """

    workload: WorkloadName
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
    inputs: InputsText | None = None
    source: SourceDigest | None = None

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
        """The case as a path. Equal cases have equal keys, and `parse` reads a key back."""
        return self._path(self.rung)

    @property
    def ladder(self) -> str:
        """The key with a star for the rung: the same for all cases of one ladder."""
        return self._path("*")

    @property
    def family(self) -> str:
        """The key without the digest of the model's code: the same for all versions of a user's model."""
        return msgspec.structs.replace(self, source=None).key

    @property
    def requirements(self) -> set[str]:
        """What the workload must support. A variant of a rung requires the rung as well."""
        rung = self.rung.partition("@")[0]
        return {self.mode, self.precision, self.device_type, rung, rung.partition(":")[0]}

    @property
    def device_index(self) -> int:
        return int(self.device.partition(":")[2] or 0)

    @property
    def device_type(self) -> str:
        return self.device.partition(":")[0]

    def _path(self, rung: str) -> str:
        path = (rung if name == "rung" else getattr(self, name) for name in PATH_FIELDS)
        settings = {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}
        return "/".join((*path, _pairs({"batch": self.batch, **self.sizes}), _pairs(settings)))

    @classmethod
    def parse(cls, key: str) -> "Case":
        """The case with this key; BadInput if the text is not a key."""
        parts = key.split("/")
        if len(parts) != len(PATH_FIELDS) + 2:
            raise BadInput(f"'{key[:120]}' is not a case key: want {'/'.join(PATH_FIELDS)}/sizes/settings")
        try:
            sizes, settings = (_split(part) for part in parts[-2:])
            fields = {**settings, **dict(zip(PATH_FIELDS, parts, strict=False))}
            fields |= {"batch": sizes.pop("batch", None), "sizes": sizes}
            case = msgspec.convert(fields, cls, strict=False)
        except ValueError as error:
            raise BadInput(f"'{key[:120]}' is not a case key: {brief(error)}") from None
        if case.key != key:
            raise BadInput(f"'{key[:120]}' is not a stable case key: it would be written {case.key[:400]}")
        return case


_TYPES = {field.name: field.type for field in msgspec.structs.fields(Case)}
# The valid values of each field that has a fixed set of them.
CHOICES = {name: values for name, type_ in _TYPES.items() if (values := choices(type_))}
# The fields that are positive whole numbers.
COUNTS = tuple(name for name, type_ in _TYPES.items() if type_ in (Count, Count | None))
# How a key is made: PATH_FIELDS between slashes, then the batch and the sizes, then the settings.
PATH_FIELDS = Case.__struct_fields__[: Case.__struct_fields__.index("batch")]
SETTINGS = Case.__struct_fields__[Case.__struct_fields__.index("sizes") + 1 :]


def key_matches(key: str, pattern: str) -> bool:
    """Whether the pattern is the key, its beginning up to a slash, or a pattern with stars that fits the key."""
    if "*" in pattern:
        return re.fullmatch(".*".join(re.escape(part) for part in re.split(r"\*+", pattern)), key) is not None
    return key == pattern or key.startswith(pattern.rstrip("/") + "/")


def _pairs(values: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def _split(text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and value for name, _, value in pairs):
        raise ValueError(f"'{text[:80]}' is not a list of name=value")
    return {name: value for name, _, value in pairs}
