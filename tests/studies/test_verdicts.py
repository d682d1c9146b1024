"""Verdicts: what parts say together, confounds, quick runs, other devices, and the documents beside records."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import make_case, make_failure, make_record, make_round

from tare.cases.plan import Skip
from tare.errors import BadInput
from tare.records.codec import encode
from tare.records.record import Record
from tare.report.formats.markdown import markdown
from tare.report.study import our_text, study_view
from tare.report.terminal import plain_text
from tare.studies.evidence import Evidence, read_evidence
from tare.studies.study import Claim, make_study
from tare.studies.verdict import ClaimVerdict, judge_claim, judge_study

FASTER = {"rule": "ratio", "of": ["rung=eager"], "to": ["rung=compile"], "at_least": 1.0}
SLOWER = {"rule": "ratio", "of": ["rung=eager"], "to": ["rung=compile"], "at_most": 1.0}
RESULTS = Path(__file__).parents[2] / "results"


def claim(**fields: Any) -> Claim:
    table = {"id": "one", "says": "s", "device": "any", **fields}
    return make_study({"name": "tiny", "title": "t", "paper": "p", "claim": [table]}, "tiny.toml").claims[0]


def records(ratio: float = 2.0, rounds: int = 3, **fields: Any) -> list[Record]:
    noise = (1.0, 1.01, 0.99)[:rounds]
    return [
        make_record(
            make_case(rung="eager", **fields), steps_s=[ratio * 1e-3 * factor for factor in noise], id="e"
        ),
        make_record(make_case(rung="compile", **fields), steps_s=[1e-3] * rounds, id="c"),
    ]


def verdict(claim: Claim, found: list[Record], **more: Any) -> ClaimVerdict:
    return judge_claim(claim, Evidence(records=found, **more))


def test_all_parts_must_hold() -> None:
    two = claim(part=[FASTER, {"rule": "fails", "of": ["rung=torchscript"]}])
    broken = make_record(make_case(rung="torchscript"), failure=make_failure(), id="t")
    assert verdict(two, [*records(), broken]).verdict == "confirmed"
    assert verdict(two, records()).verdict == "not yet measured"
    assert verdict(two, [*records(0.5), broken]).verdict == "refuted"
    # One that is contradicted refutes, whatever the others would say.
    assert verdict(two, records(0.5)).verdict == "refuted"


def test_a_refuted_claim_is_explained_by_a_confound_that_holds() -> None:
    tested = {"confound": [{"cause": "of the weather", **FASTER}]}
    explained = verdict(claim(part=[SLOWER], **tested), records())
    assert (explained.verdict, explained.reason) == ("not reproduced", "because of the weather")
    # A confound does not touch a claim that is confirmed, nor one that is open.
    assert verdict(claim(part=[FASTER], **tested), records()).verdict == "confirmed"
    assert verdict(claim(part=[SLOWER], **tested), []).verdict == "not yet measured"
    wrong = {"confound": [{"cause": "of the moon", **SLOWER, "at_most": 0.1}]}
    assert verdict(claim(part=[SLOWER], **wrong), records()).verdict == "refuted"


def test_a_quick_run_decides_nothing() -> None:
    quick = verdict(claim(part=[FASTER]), records(), quick=True)
    assert quick.verdict == "not yet measured"
    assert quick.reason.startswith("--quick measures small sizes")
    assert quick.figures[0][1].value == pytest.approx(2.0, rel=0.01)


def test_records_of_another_kind_of_device_are_a_lead() -> None:
    about_gpus = claim(part=[FASTER], device="cuda")
    lead = verdict(about_gpus, records())
    assert (lead.verdict, lead.reason) == (
        "not yet measured", "measured on cpu only, and the claim is about cuda"
    )  # fmt: skip
    absent = make_record(make_case(rung="compile"), failure=make_failure(cause="not-installed", message="no g++"))
    other = verdict(about_gpus, [records()[0], absent])
    assert (other.verdict, other.reason) == ("not yet measured", "compile: not-installed: no g++")
    assert verdict(about_gpus, [*records(0.1), *records(device="cuda")]).verdict == "confirmed"


def test_claims_without_rules() -> None:
    assert verdict(claim(waits_for="a rule"), records()).verdict == "not yet measured"
    untestable = verdict(claim(untestable="it needs a TITAN V"), records())
    assert (untestable.verdict, untestable.reason) == ("not testable here", "it needs a TITAN V")


def test_a_rung_that_is_not_installed_is_not_testable() -> None:
    absent = make_record(make_case(rung="compile"), failure=make_failure(cause="not-installed", message="no g++"))
    untestable = verdict(claim(part=[FASTER]), [records()[0], absent])
    assert (untestable.verdict, untestable.reason) == ("not testable here", "compile: not-installed: no g++")


def test_what_a_cpu_run_skipped_says_nothing_of_a_gpu() -> None:
    about_gpus = claim(part=[FASTER], device="cuda")
    key = "mlp/compile/infer/{}/fp32/batch=32,width=64/feed=device,layout=contiguous"
    eager = records(device="cuda")[:1]
    for device, said in {"cpu": "not yet measured", "cuda": "not testable here"}.items():
        skips = [Skip(key.format(device), "not-installed", "no g++")]
        assert verdict(about_gpus, eager, skips=skips).verdict == said


def test_what_did_not_fit_into_memory_is_shown() -> None:
    full = make_failure(cause="device-oom", message="no room")
    large = [make_record(make_case(rung=r, batch=1024), id=f"{r}1024", failure=full) for r in ("eager", "compile")]
    part = verdict(claim(part=[FASTER]), [*records(), *large]).parts[0]
    assert part.figure is not None
    assert (part.figure.points, part.figure.planned) == (1, 2)
    assert list(part.missed.values()) == ["eager: device-oom: no room"]


def test_the_view_says_what_the_paper_said_and_what_this_machine_says() -> None:
    tables = [
        {"id": "faster", "says": "It is faster.", "paper": "1.9x", "device": "any", "part": [FASTER]},
        {"id": "slower", "says": "It is slower.", "device": "any", "part": [SLOWER]},
        {"id": "later", "says": "It is.", "waits_for": "a rule"},
    ]
    study = make_study({"name": "tiny", "title": "t", "paper": "p", "claim": tables}, "tiny.toml")
    view = study_view(judge_study(study, Evidence(records=records(), where="a file")))
    text = plain_text(view)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "1 of 1       3  same    confirmed" in text
    assert "2x (1.95x to 2.05x)" in text
    assert "later: It is. Not yet measured: a rule." in text
    assert "3 claims: 1 confirmed, 1 refuted, 1 not yet measured" in text
    assert "| faster | 1.9x | 2x (1.95x to 2.05x) | 1 of 1 | 3 | same | confirmed |" in markdown(view)


def test_every_point_behind_a_figure_can_be_seen() -> None:
    full = make_record(
        make_case(rung="eager", batch=1024), failure=make_failure(cause="device-oom", message="no room")
    )
    found = [*records(), *records(3.0, batch=1), full]
    tables = [{"id": "faster", "says": "It is.", "device": "any", "part": [FASTER]}]
    study = make_study({"name": "tiny", "title": "t", "paper": "p", "claim": tables}, "tiny.toml")
    text = plain_text(study_view(judge_study(study, Evidence(records=found)), points=True))
    lines = [line.split() for line in text.splitlines()]
    assert ["mlp/eager/infer/cpu/fp32/batch=1,width=64/feed=device,layout=contiguous", "3x"] in lines
    assert ["mlp/eager/infer/cpu/fp32/batch=32,width=64/feed=device,layout=contiguous", "2x"] in lines
    assert "batch=1024" in text
    assert "eager: device-oom: no room" in " ".join(text.split())


def published(name: str) -> Path:
    return RESULTS / "zoo" / name


def test_the_coverage_of_a_suite_is_counted() -> None:
    evidence = read_evidence([published("coverage.json")])
    # 235 of torch's functions against 137, as results/zoo/coverage.json has them.
    rule = {"rule": "coverage", "published": 2.3, "tolerance": 0.15}
    found = judge_claim(claim(part=[rule]), evidence)
    assert found.verdict == "refuted"
    assert our_text(found.figures[0][1]) == "1.72x"
    close = {"rule": "coverage", "published": 1.7, "tolerance": 0.1}
    assert judge_claim(claim(part=[close]), evidence).verdict == "confirmed"
    unknown = {"rule": "coverage", "of": "zoo", "to": "nobody", "at_least": 1.0}
    assert judge_claim(claim(part=[unknown]), evidence).reason == "no coverage of zoo and nobody"


def test_the_shares_of_a_breakdown_are_means_over_workloads(tmp_path: Path) -> None:
    document = msgspec.json.decode(gzip.decompress(published("h200-explained-infer.json.gz").read_bytes()))
    kept = {"explanations": document["explanations"][:12]}
    # Each of them computes for a tenth more of the window than the one before, and waits for the rest.
    for i, one in enumerate(kept["explanations"]):
        one["domain"] = "vision" if i < 9 else "nlp"
        one["waterfall"]["profiled"] = True
        for step in one["breakdown"]["steps"]:
            step |= {
                "window": 1000,
                "active": 100 + 50 * i,
                "movement": 0,
                "idle": 900 - 50 * i,
                "communicating": 0,
            }
    path, again = tmp_path / "explained.json", tmp_path / "again.json"
    path.write_bytes(msgspec.json.encode(kept))
    again.write_bytes(path.read_bytes())
    evidence = read_evidence([path, again])
    rule = {"rule": "share", "mode": "infer", "published": 0.375, "within": 0.15}
    lead = judge_claim(claim(part=[rule]), read_evidence([path]))
    assert (lead.verdict, lead.reason) == ("not yet measured", "one round is a lead, not a result")
    found = judge_claim(claim(part=[rule]), evidence)
    assert found.figures[0][1].rounds == 2
    assert found.verdict == "confirmed"
    # The mean of 10, 15, ... 65 %; its interval is 2.201 * 18.03 / sqrt(12) % on either side.
    assert our_text(found.figures[0][1]) == "37.5 % (26.0 % to 49.0 %)"
    assert judge_claim(claim(part=[rule | {"published": 0.9}]), evidence).verdict == "refuted"
    few = judge_claim(claim(part=[rule | {"domain": "nlp"}]), evidence)
    assert (few.verdict, few.reason) == ("not yet measured", "3 workloads are no sample of others: 8 are")
    none = judge_claim(claim(part=[rule | {"domain": "rl"}]), evidence)
    assert none.reason == "no breakdown of rl for infer on eager"


def test_the_frames_of_a_call_are_counted() -> None:
    evidence = read_evidence([RESULTS / "frames" / "h200.json.gz"])
    rules = {
        frames: {"rule": "depth", "rung": "eager", "frames": frames, "published": count, "within": 0.5}
        for frames, count in {"python": 9, "native": 38, "all": 47}.items()
    }
    assert judge_claim(claim(part=list(rules.values())), evidence).verdict == "confirmed"
    assert judge_claim(claim(part=[rules["all"] | {"published": 91}]), evidence).verdict == "refuted"
    assert judge_claim(claim(part=[rules["all"] | {"rung": "none"}]), evidence).verdict == "not yet measured"


def test_records_in_files_are_judged_and_other_files_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_bytes(encode(records()))
    assert judge_claim(claim(part=[FASTER]), read_evidence([path])).verdict == "confirmed"
    for text in ("{}", '{"explanations": 1}', "{", "nonsense"):
        path.write_text(text)
        with pytest.raises(BadInput, match="is none of: tare export") as caught:
            read_evidence([path])
        assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="cannot read"):
        read_evidence([tmp_path / "absent.json"])


def test_rounds_that_failed_do_not_count() -> None:
    eager, compiled = records()
    failed = make_round(3, series=[], failure=make_failure())
    eager = msgspec.structs.replace(eager, rounds=[*eager.rounds, failed])
    figure = verdict(claim(part=[FASTER]), [eager, compiled]).figures[0][1]
    assert figure.rounds == 3
