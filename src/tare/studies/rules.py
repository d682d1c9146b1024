"""The rules that decide a claim: a closed set, written as tables in the TOML of a study. Nothing in them is
evaluated as code.

A rule names which records it is about, the figure that it makes of them, and the values of that figure with which
the claim holds. The claim holds if the whole interval of the figure is among those, fails if none of it is, and is
not decided otherwise.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from tare.cases.tables import convert_table
from tare.errors import BadInput, unknown
from tare.store.selection import filter_records
from tare.studies.metrics import study_metric

# A field in which two machines differ, and not two cases.
ENVIRONMENT = "environment"
# A terms of docs/records.md: "rung=eager", "batch=64,128", or a pattern of a case's key.
Terms = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Part = Literal["active", "movement", "idle"]


class StudyRule(msgspec.Struct, frozen=True, kw_only=True):
    """What every rule may say. `published` is the paper's number. The claim holds from `at_least` to `at_most`, or
    about the published number: within a factor (`tolerance`: 0.1 is 10 %) or a distance (`within`)."""

    label: str = ""
    published: float | None = None
    tolerance: Positive | None = None
    within: Positive | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def region(self) -> tuple[float, float]:
        """The values of the figure with which the claim holds."""
        if self.published is not None and self.tolerance is not None:
            return self.published / (1 + self.tolerance), self.published * (1 + self.tolerance)
        if self.published is not None and self.within is not None:
            return self.published - self.within, self.published + self.within
        low = -math.inf if self.at_least is None else self.at_least
        return low, math.inf if self.at_most is None else self.at_most


class OverPoints(StudyRule, frozen=True, kw_only=True):
    """A figure of a metric over points. A point is a case of `of` or, where there is a second selection `to`, two
    cases that are equal but for the fields in `differ`."""

    metric: str = "gross"
    of: Terms
    to: tuple[str, ...] = ()
    differ: tuple[str, ...] = ("rung",)
    # A claim about a grid is not decided by a few of its points.
    fewest: Count = 1

    @property
    def between_machines(self) -> bool:
        """Whether the sides are two machines: then there is one selection, and `differ` is the environment."""
        return ENVIRONMENT in self.differ and not self.to

    @property
    def is_ratio(self) -> bool:
        return bool(self.to) or self.between_machines


class RatioRule(OverPoints, frozen=True, kw_only=True):
    """The geometric mean over points of the metric of `of` over that of `to`. `points = "sample"` says that the
    points stand for others, as the workloads of a suite do: the interval is then that of the mean over points."""

    points: Literal["fixed", "sample"] = "fixed"


class ValueRule(OverPoints, frozen=True, kw_only=True):
    """The geometric mean over points of the metric itself."""


class MpeRule(OverPoints, frozen=True, kw_only=True):
    """The mean over points of (of - to) / of, as the LSTM paper compares: negative where `to` takes longer."""


class EachRule(OverPoints, frozen=True, kw_only=True):
    """The ratio (or the value, without `to`) at every single point. One point that is surely elsewhere refutes."""


class MixedRule(OverPoints, frozen=True, kw_only=True):
    """Neither side is the lower one everywhere: each is so at some point, by more than the margin."""

    margin: Positive = 0.02


class TrendRule(OverPoints, frozen=True, kw_only=True):
    """The ratio (or the value, without `to`) rises or falls along an axis: `batch`, `threads` or a size. It must
    change by more than the margin from the first to the last value of the axis, and must surely do the opposite at
    no step between."""

    axis: str
    direction: Literal["rises", "falls"]
    margin: Positive = 0.02


class FailsRule(StudyRule, frozen=True, kw_only=True):
    """No case of the selection can be run."""

    of: Terms


class ShareRule(StudyRule, frozen=True, kw_only=True):
    """The mean over workloads of a share of the step, from the output of `tare explain --json`."""

    part: Part = "active"
    mode: Literal["train", "infer"]
    domain: str = "all"
    rung: str = "eager"


class CoverageRule(StudyRule, frozen=True, kw_only=True):
    """How many times as much of a registry one group covers as another, from `tare coverage --json`."""

    of: str = "zoo"
    to: str = "mlperf"
    registry: Literal["api", "aten", "core"] = "api"


class DepthRule(StudyRule, frozen=True, kw_only=True):
    """The frames between the user's call and the vendor library, from `tare frames --json`."""

    workload: str = "resnet50"
    rung: str
    frames: Literal["python", "native", "all"] = "all"


class AccuracyRule(StudyRule, frozen=True, kw_only=True):
    """The mean difference in accuracy at the end of training, `of` less `to`, over runs from the same seeds, from
    `tare train`."""

    workload: str
    data: str
    of: str
    to: str = "eager"
    split: Literal["train", "test"] = "test"


RULES: dict[str, type[StudyRule]] = {
    "ratio": RatioRule,
    "value": ValueRule,
    "mpe": MpeRule,
    "each": EachRule,
    "mixed": MixedRule,
    "trend": TrendRule,
    "fails": FailsRule,
    "share": ShareRule,
    "coverage": CoverageRule,
    "depth": DepthRule,
    "accuracy": AccuracyRule,
}
# These compare two sides.
TWO_SIDED = (RatioRule, MpeRule, MixedRule)
# These say by themselves what holds.
WITHOUT_REGION = (MixedRule, TrendRule, FailsRule)
_NAMES = {type_: name for name, type_ in RULES.items()}


def name_of(rule: StudyRule) -> str:
    return _NAMES[type(rule)]


def make_rule(table: Mapping[str, Any], where: str) -> StudyRule:
    """The rule in a table; BadInput names what is wrong in it."""
    name = table.get("rule")
    if not isinstance(name, str) or name not in RULES:
        raise unknown("rule", name, RULES, where)
    rule = convert_table({key: value for key, value in table.items() if key != "rule"}, RULES[name], where)
    _check_region(rule, where)
    if isinstance(rule, OverPoints):
        study_metric(rule.metric, where)
        if isinstance(rule, TWO_SIDED) and not rule.is_ratio:
            raise BadInput(f"{where}: the rule '{name}' takes a second selection: write to = [...]")
        if isinstance(rule, ValueRule) and rule.is_ratio:
            raise BadInput(f"{where}: the rule 'value' has one selection; the rule 'ratio' has two")
        if isinstance(rule, EachRule) and rule.region[0] != -math.inf and rule.region[0] <= 0:
            raise BadInput(f"{where}: a limit of the rule 'each' is above 0")
    terms: tuple[str, ...] = ()
    if isinstance(rule, (OverPoints, FailsRule)):
        terms = (*rule.of, *getattr(rule, "to", ()))
    try:
        # For the sake of its errors: there is nothing to select from.
        filter_records([], terms)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    return rule


def _check_region(rule: StudyRule, where: str) -> None:
    about = [name for name in ("tolerance", "within") if getattr(rule, name) is not None]
    bounds = [name for name in ("at_least", "at_most") if getattr(rule, name) is not None]
    if isinstance(rule, WITHOUT_REGION):
        if about or bounds:
            raise BadInput(f"{where}: the rule '{name_of(rule)}' takes no {(about + bounds)[0]}")
        return
    if about and rule.published is None:
        raise BadInput(f"{where}: '{about[0]}' is about a published number: write published = NUMBER")
    if len(about) + bool(bounds) != 1:
        raise BadInput(f"{where}: a rule takes either tolerance, or within, or at_least and at_most")
    low, high = rule.region
    if not low <= high:
        raise BadInput(f"{where}: no value is from {low:g} to {high:g}")
