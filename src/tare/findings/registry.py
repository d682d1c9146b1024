"""Finding rules by id: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tare.errors import unknown
from tare.findings.finding import Hit
from tare.system.plugins import load_plugins, refuse_a_second

Look = Callable[..., Iterable[Hit]]

_OWN = tuple(
    f"tare.findings.rules.{name}"
    for name in (
        "tiny_optimizer_kernels",
        "scalar_copies",
        "parameter_ping_pong",
        "pageable_copies",
        "exposed_copies",
        "hidden_sync",
        "repeated_sync",
        "host_bound",
        "launch_bound",
        "loader_starvation",
        "off_multiple_shapes",
        "tf32_off",
        "conv_bias_before_norm",
        "channels_first",
        "split_convolution",
        "graph_breaks",
        "recompilation",
        "exceptions",
        "memory_growth",
        "allocator_churn",
        "kernel_changed",
        "operator_slowed",
        "fused_slower",
        "host_work_grew",
    )
)
_rules: dict[str, "Rule"] = {}


@dataclass(frozen=True)
class Rule:
    """`look(scene)` yields what it sees in one trace; with `pair`, `look(before, after)` compares two."""

    id: str
    sees: str
    remedy: str
    look: Look
    pair: bool = False


def rule(id: str, *, sees: str, remedy: str, pair: bool = False) -> Callable[[Any], Any]:
    """Registers the decorated function as a rule; `sees` and `remedy` are a sentence each."""

    def register(look: Look) -> Look:
        refuse_a_second("rule", id, look, _rules[id].look if id in _rules else None)
        _rules[id] = Rule(id, sees, remedy, look, pair)
        return look

    return register


def all_rules() -> dict[str, Rule]:
    load_plugins("tare.findings", _OWN)
    return dict(_rules)


def get_rule(id: str) -> Rule:
    known = all_rules()
    if id not in known:
        raise unknown("finding", id, known)
    return known[id]
