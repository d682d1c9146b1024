"""Rules are found by id, refused by id, and added by a plug-in of one small file."""

from pathlib import Path

import pytest
from habits import HABITS
from plugin import install, run_beside
from traces import RECORDED

from tare.errors import BadInput
from tare.findings.context import Scene
from tare.findings.find import find
from tare.findings.finding import Hit, Place, most_costly, severity_of
from tare.findings.registry import Rule, all_rules, get_rule
from tare.trace.read import read

LISTED = Path(__file__).parents[2] / "docs" / "findings.md"

PLUGIN = """
from tare.findings import Hit, rule
from tare.findings.replay import Edit
from tare.findings.context import spans_of


@rule("many-adds", sees="More than ten additions a step.", remedy="Add less.")
def look(scene):
    rows = scene.operators("aten::add_")
    if scene.per_step(len(rows)) > 10:
        gone = spans_of(scene.trace.operators, rows, most=len(rows))
        gain = scene.price(Edit(removed=gone))
        yield Hit(summary=f"{scene.per_step(len(rows)):.0f} additions a step", gain_s=gain)
"""


def test_every_rule_says_what_it_sees_and_what_to_do() -> None:
    rules = all_rules()
    assert len(rules) >= 23
    for rule in rules.values():
        assert rule.sees.endswith("."), rule.id
        assert rule.remedy.endswith("."), rule.id


def test_every_rule_is_in_the_documentation() -> None:
    text = LISTED.read_text()
    assert [rule for rule in all_rules() if f"| `{rule}` |" not in text] == []


def test_every_rule_has_a_program_with_its_habit() -> None:
    assert {habit.rule for habit in HABITS.values()} == set(all_rules())


def test_an_unknown_rule_names_the_valid_ones() -> None:
    with pytest.raises(BadInput, match=r"unknown finding 'hiden-sync'.*did you mean 'hidden-sync'"):
        get_rule("hiden-sync")


def test_a_plugin_adds_a_rule_through_its_entry_point(tmp_path: Path) -> None:
    install(tmp_path, "tare_adds", PLUGIN, "tare.findings")
    code = (
        "from pathlib import Path\n"
        "from tare.findings.find import find; from tare.findings.context import Scene\n"
        "from tare.trace.read import read\n"
        "found = {f.rule: f for f in find(Scene(read(Path(sys.argv[2]))))}\n"
        "print(found['many-adds'].summary, found['many-adds'].severity, found['many-adds'].remedy)\n"
    )
    said = run_beside(tmp_path, code, str(RECORDED / "habit-loop-optimizer.json.gz"))
    assert said == "42 additions a step high Add less.\n"


def rule_of(*hits: Hit) -> Rule:
    return Rule("planted", "Sees.", "Do.", lambda _: iter(hits))


def test_what_gives_back_next_to_nothing_is_no_finding() -> None:
    scene = Scene(read(RECORDED / "habit-leak.json.gz"))
    step = scene.step_s
    hits = [Hit(summary="a", gain_s=0.004 * step), Hit(summary="b", gain_s=0.02 * step), Hit(summary="c")]
    hits += [Hit(summary="d", severity="high"), Hit(summary="e", gain_s=0.5 * step)]
    found = find(scene, rules=[rule_of(*hits)])
    assert [(f.summary, f.severity) for f in found] == [("e", "high"), ("d", "high"), ("b", "low")]


@pytest.mark.parametrize(("share", "severity"), [(None, "low"), (0.01, "low"), (0.03, "medium"), (0.1, "high")])
def test_severity_follows_the_share_given_back(share: float | None, severity: str) -> None:
    assert severity_of(share) == severity


def test_a_rule_may_ask_for_more_severity_than_the_share_but_never_for_less() -> None:
    assert severity_of(0.01, "medium") == "medium"
    assert severity_of(0.2, "low") == "high"
    assert severity_of(None, "high") == "high"


def test_equal_places_are_one() -> None:
    places = [Place(where=f"line {i % 10}", count=1, seconds=i) for i in range(20)]
    joined = most_costly(places)
    assert len(joined) == 8
    assert joined[0] == Place(where="line 9", count=2, seconds=28)
