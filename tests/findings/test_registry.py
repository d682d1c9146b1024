"""Rules by id, rules of plug-ins, and how matches become findings."""

import json
import re
from pathlib import Path

import pytest
from inefficiencies import INEFFICIENCIES
from plugin import install, run_beside
from traces import RECORDED

from tare.errors import BadInput
from tare.findings.context import Context, Location
from tare.findings.finding import Match, Rule, all_rules, find, get_rule, joined, severity_of
from tare.trace.read import read

LISTED = Path(__file__).parents[2] / "docs" / "findings.md"

# The savings that programs gave back on a GPU (tests/gpu/test_findings_on_cuda.py).
RECORD = Path(__file__).parents[2] / "results" / "findings" / "h200.json"
# What one GPU cannot record, and what is no inefficiency of a step: these rules have generated traces
# (test_communication_rules.py, test_found_steps.py).
WITHOUT_PROGRAM = {"exposed-communication", "small-collectives", "waiting-collectives", "once-only-costs"}
# Nothing of these has been recorded on a GPU. The programs of transformers ran on a CPU and on a modelled device
# (test_modelled_programs.py).
GENERATED = WITHOUT_PROGRAM | {
    "attention-by-hand", "attention-in-a-loop", "growing-cache", "host-made-tensors", "norm-by-hand",
    "activation-by-hand", "loss-by-hand", "rotary-by-hand", "unused-positions", "padding",
    "dense-embedding-gradients", "slow-products",
}  # fmt: skip

PLUGIN = """
from tare.findings import Match, WhatIf, rule


@rule("Add less.")
def many_adds(context):
    "More than ten additions a step."
    rows = context.operators("aten::add_")
    if context.per_step(len(rows)) > 10:
        saving = context.saving(WhatIf(removed=context.trace.operators.intervals(rows)))
        return Match(summary=f"{context.per_step(len(rows)):.0f} additions a step", saving_s=saving)
"""


def test_every_rule_states_what_it_sees_and_its_remedy() -> None:
    for rule in all_rules().values():
        assert rule.sees.endswith("."), rule.id
        assert rule.remedy.endswith("."), rule.id


def test_every_rule_is_in_the_documentation() -> None:
    text = LISTED.read_text()
    assert [rule for rule in all_rules() if f"| `{rule}` |" not in text] == []


def test_every_rule_has_a_program_with_its_inefficiency() -> None:
    assert {program.rule for program in INEFFICIENCIES.values()} == set(all_rules()) - WITHOUT_PROGRAM


def test_the_rules_that_were_not_recorded_on_a_gpu_are_listed_and_documented() -> None:
    recorded = {entry["rule"] for entry in json.loads(RECORD.read_text())["inefficiencies"]}
    assert set(all_rules()) - recorded == GENERATED
    paragraph = LISTED.read_text().partition("These have not been recorded on a GPU yet: ")[2].partition("\n- ")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`", paragraph.partition("They were")[0])) == GENERATED


def test_an_unknown_rule_names_the_valid_ones() -> None:
    with pytest.raises(BadInput, match=r"unknown finding 'hiden-sync'.*did you mean 'hidden-sync'"):
        get_rule("hiden-sync")


def test_a_plugin_adds_a_rule_through_its_entry_point(tmp_path: Path) -> None:
    install(tmp_path, "tare_adds", PLUGIN, "tare.findings")
    code = (
        "from pathlib import Path\n"
        "from tare.findings.finding import find; from tare.findings.context import Context\n"
        "from tare.trace.read import read\n"
        "found = {f.rule: f for f in find(Context(read(Path(sys.argv[2]))))}\n"
        "print(found['many-adds'].summary, found['many-adds'].severity, found['many-adds'].remedy)\n"
    )
    printed = run_beside(tmp_path, code, str(RECORDED / "inefficient-loop-optimizer.json.gz"))
    assert printed == "42 additions a step high Add less.\n"


def rule_of(match: Match) -> Rule:
    return Rule("test", "Sees.", "Do.", lambda _: match)


def test_a_saving_of_next_to_nothing_is_no_finding() -> None:
    context = Context(read(RECORDED / "inefficient-leak.json.gz"))
    savings = {"a": 0.004, "b": 0.02, "e": 0.5}
    matches = [Match(summary=name, saving_s=share * context.step_s) for name, share in savings.items()]
    matches += [Match(summary="c"), Match(summary="d", severity="high")]
    found = find(context, rules=[rule_of(match) for match in matches])
    assert [(f.summary, f.severity) for f in found] == [("e", "high"), ("d", "high"), ("b", "low")]


@pytest.mark.parametrize(("share", "severity"), [(None, "low"), (0.01, "low"), (0.03, "medium"), (0.1, "high")])
def test_severity_follows_the_share_that_is_saved(share: float | None, severity: str) -> None:
    assert severity_of(share) == severity


def test_a_rule_may_raise_the_severity_and_never_lower_it() -> None:
    assert severity_of(0.01, "medium") == "medium"
    assert severity_of(0.2, "low") == "high"
    assert severity_of(None, "high") == "high"


def test_equal_locations_are_joined() -> None:
    locations = [Location(where=f"line {i % 10}", count=1, seconds=i) for i in range(20)]
    longest = joined(locations)
    assert len(longest) == 8
    assert longest[0] == Location(where="line 9", count=2, seconds=28)
