"""Real programs on a modelled device: each habit of a transformer is found and its remedy is not, the saving is
what the remedy gives back there, and well-made transformers are left alone. The same traces as a CPU recorded
them."""

from functools import lru_cache, partial
from typing import Any

import pytest
import torch
from inefficiencies import INEFFICIENCIES
from modelled_device import RATES, on_device, record
from traces import TraceBuilder
from well_made import SMALL, WELL_MADE, inferring

from tare.findings.context import Context
from tare.findings.finding import Finding, find

# A CPU has no copies between host and device.
HABITS = [
    name
    for name, program in INEFFICIENCIES.items()
    if program.make.__module__.endswith("transforming") and program.rule != "host-made-tensors"
]
# On a CPU torch's rms_norm and its sparse optimizer consist of many operators, which a model of kernels counts.
FUSED_ON_GPU_ONLY = {"rms-norm-by-hand", "dense-embedding-gradient"}
# Only kernels show what a product reaches.
NEEDS_DEVICE = {"slow-products"}


@lru_cache
def recorded(name: str) -> tuple[TraceBuilder, TraceBuilder]:
    program = INEFFICIENCIES[name]
    inefficient, fixed = program.make("cpu")
    steps = max(program.steps, 2)
    return record(inefficient, steps), record(fixed, steps)


@lru_cache
def modelled(name: str) -> tuple[Context, Context]:
    inefficient, fixed = (Context(on_device(trace).build(), rates=RATES) for trace in recorded(name))
    return inefficient, fixed


def by_rule(context: Context) -> dict[str, Finding]:
    return {finding.rule: finding for finding in find(context)}


@pytest.mark.parametrize("name", HABITS)
def test_on_a_device_the_habit_alone_is_found(name: str) -> None:
    inefficient, fixed = modelled(name)
    assert set(by_rule(inefficient)) == {INEFFICIENCIES[name].rule}
    assert set(by_rule(fixed)) == set()


@pytest.mark.parametrize("name", [name for name in HABITS if name not in FUSED_ON_GPU_ONLY])
def test_the_saving_is_what_the_remedy_gives_back(name: str) -> None:
    inefficient, fixed = modelled(name)
    finding = by_rule(inefficient)[INEFFICIENCIES[name].rule]
    saved_s = inefficient.step_s - fixed.step_s
    assert finding.saving_s is not None
    assert saved_s / 2 < finding.saving_s < (1.0 if finding.bound == "at least" else 2.0) * saved_s
    assert finding.bound != "at most"


@pytest.mark.parametrize("name", HABITS)
def test_in_a_trace_of_a_cpu_the_habit_alone_is_found(name: str) -> None:
    rule = INEFFICIENCIES[name].rule
    inefficient, fixed = (set(by_rule(Context(trace.build()))) for trace in recorded(name))
    assert inefficient == (set() if rule in NEEDS_DEVICE else {rule})
    assert fixed == set()


SLOW = {"gpt-compiled-training", "vit-training", "llama-training"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name in SLOW else ()) for name in WELL_MADE]
)
def test_well_made_transformers_are_left_alone(name: str) -> None:
    torch.manual_seed(0)
    trace = record(WELL_MADE[name](SMALL))
    for context in (Context(on_device(trace).build(), rates=RATES), Context(on_device(trace).build())):
        assert [finding.rule for finding in find(context) if finding.severity != "low"] == []
    assert [finding.rule for finding in find(Context(trace.build())) if finding.severity != "low"] == []


# Two layers: a norm before each of their halves and one at the end; queries and keys are rotated.
LLAMA = {"attention-by-hand": 2, "norm-by-hand": 5, "rotary-by-hand": 4}
COUNTED = {
    "attention-by-hand": "attentions_per_step",
    "norm-by-hand": "chains_per_step",
    "rotary-by-hand": "chains_per_step",
    "activation-by-hand": "chains_per_step",
}


@pytest.mark.full
def test_transformers_own_models_have_the_habits_that_their_code_has() -> None:
    """With attention as transformers writes it out. Llama's norms and rotary embeddings and GPT-2's activation are
    written by hand, BERT's and GPT-2's norms and Llama's activation are not."""
    import transformers

    size = {"vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {"intermediate_size": 128}
    eager: dict[str, Any] = {"attn_implementation": "eager"}
    expected = {
        "LlamaForCausalLM": (transformers.LlamaConfig(**size, num_key_value_heads=2, **eager), LLAMA),
        "BertForMaskedLM": (transformers.BertConfig(**size, **eager), {"attention-by-hand": 2}),
        "GPT2LMHeadModel": (
            transformers.GPT2Config(vocab_size=300, n_embd=64, n_layer=2, n_head=4, **eager),
            {"attention-by-hand": 2, "activation-by-hand": 2},
        ),
    }
    text = torch.randint(0, 300, (2, 64))
    for name, (config, habits) in expected.items():
        model = getattr(transformers, name)(config).eval()
        trace = record(inferring(partial(model, text)))
        found = by_rule(Context(on_device(trace).build(), rates=RATES))
        counts = {rule: finding.evidence[COUNTED[rule]] for rule, finding in found.items()}
        assert counts == habits, name
