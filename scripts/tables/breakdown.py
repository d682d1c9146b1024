"""The tables of docs/zoo-breakdown.md: the zoo on an H200, as figures 1 and 2 and table 2 of the TorchBench paper.

python scripts/tables/breakdown.py                      writes the tables; a test compares
python scripts/tables/breakdown.py EXPLAINED.json FILE  merges the output of `tare explain @zoo --json` into a
                                                        published file, without its long tables
"""

import gzip
import sys
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tare.records.work import Peaks
from tare.report.formats.markdown import table
from tare.report.numbers import percent, seconds
from tare.trace.explanation import Explanation
from tare.trace.group import PARTS, DomainShares, WorkloadShares, group_breakdowns
from tare.workloads import get_workload
from tare.workloads.groups import all_groups

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "zoo-breakdown.md"
RECORDS = {mode: ROOT / "results" / "zoo" / f"h200-explained-{mode}.json.gz" for mode in ("train", "infer")}
WORDS = ("domain", "finding", "workload", "main cause of idle time", "largest findings")
MARK = "<!-- what follows is written by scripts/tables/breakdown.py -->\n"
# Active, movement and idle in the paper's table 2 (an A100 and PyTorch of 2023), in percent; over all models only
# the first is known.
PAPER: dict[str, dict[str, tuple[float, ...]]] = {
    "train": {
        "vision": (53.1, 2.1, 44.8), "nlp": (84.9, 1.3, 13.8), "recommendation": (75.4, 0.4, 24.2),
        "rl": (10.2, 5.0, 84.8), "speech": (28.8, 0.3, 70.9), "all": (56.8,),
    },
    "infer": {
        "vision": (62.8, 1.4, 35.7), "nlp": (64.7, 0.8, 34.5), "recommendation": (51.4, 0.1, 48.5),
        "rl": (19.3, 8.4, 72.3), "speech": (50.3, 0.3, 49.4), "all": (55.4,),
    },
}  # fmt: skip


class PublishedFinding(msgspec.Struct):
    """A finding without its locations."""

    rule: str
    severity: str
    saving_share: float | None
    bound: str = ""


class PublishedBreakdown(msgspec.Struct):
    explanations: list[Explanation]
    # By case. A case that is missing here was explained by an earlier version of the rules: explain it again.
    findings: dict[str, list[PublishedFinding]]
    failed: dict[str, str]
    # One for each run that explained a part of the zoo.
    peaks: list[Peaks]


def keep(explained: Path, kept: Path) -> None:
    document: dict[str, Any] = msgspec.json.decode(explained.read_bytes())
    for explanation in document["explanations"]:
        explanation["host"]["operators"] = []
        for cause in explanation["idle"]["causes"] if explanation["idle"] else []:
            cause["places"] = cause["places"][:2]
    cases = [one["case"] for one in document["explanations"]]
    findings_by_case = {
        case: [{name: hit[name] for name in PublishedFinding.__struct_fields__} for hit in diagnosis["findings"]]
        for case, diagnosis in zip(cases, document["diagnoses"], strict=True)
    }
    new = msgspec.convert({**document, "findings": findings_by_case}, PublishedBreakdown)
    if kept.exists():
        old = read(kept)
        new.explanations = [
            *(one for one in old.explanations if one.case not in findings_by_case),
            *new.explanations,
        ]
        new.findings = old.findings | new.findings
        new.failed = {case: why for case, why in (old.failed | new.failed).items() if case not in new.findings}
        new.peaks = [*old.peaks, *(peaks for peaks in new.peaks if peaks not in old.peaks)]
    new.explanations.sort(key=lambda one: (one.workload or "").lower())
    with kept.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(msgspec.json.encode(new))


def read(path: Path) -> PublishedBreakdown:
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=PublishedBreakdown)


def page() -> str:
    records = {mode: read(path) for mode, path in RECORDS.items() if path.exists()}
    parts = [by_domain(mode, kept) for mode, kept in records.items()]
    parts += [findings(mode, kept) for mode, kept in records.items() if kept.findings]
    parts += [by_workload(mode, kept) for mode, kept in records.items()]
    return PAGE.read_text().partition(MARK)[0] + MARK + "\n" + "\n".join(parts)


def by_domain(mode: str, kept: PublishedBreakdown) -> str:
    found = group_breakdowns(kept.explanations)
    rows = [
        (mean.domain, str(mean.workloads), *_shares(mean), *_paper(mode, mean.domain))
        for mean in (*found.domains, *found.overall)
    ]
    heads = ("domain", "workloads", *PARTS, *(f"{part} in the paper" for part in PARTS))
    return _table(f"{mode} · by domain", heads, rows)


def _shares(one: WorkloadShares | DomainShares) -> list[str]:
    return [percent(getattr(one, part)) for part in PARTS]


def _paper(mode: str, domain: str) -> list[str]:
    known = PAPER[mode].get(domain, ())
    return [f"{share:.1f} %" for share in known] + [""] * (len(PARTS) - len(known))


def findings(mode: str, kept: PublishedBreakdown) -> str:
    gains: dict[str, list[float]] = {}
    for found in kept.findings.values():
        for one in found:
            gains.setdefault(one.rule, []).append(one.saving_share or 0.0)
    rows = [
        (rule, str(len(shares)), *(percent(of(shares)) if any(shares) else "unknown" for of in (median, max)))
        for rule, shares in sorted(gains.items(), key=lambda item: -len(item[1]))
    ]
    heads = ("finding", "workloads", "estimated saving (median)", "estimated saving (largest)")
    return _table(f"{mode} · findings", heads, rows)


def by_workload(mode: str, kept: PublishedBreakdown) -> str:
    bars = {bar.workload: bar for bar in group_breakdowns(kept.explanations).bars}
    rows = []
    for one in kept.explanations:
        bar = bars.get(one.workload or "")
        if bar is None:
            continue
        found = sorted(kept.findings.get(one.case or "", []), key=lambda hit: -(hit.saving_share or 0.0))
        named = ", ".join(f"{hit.rule} ({percent(hit.saving_share)})" for hit in found[:2] if hit.saving_share)
        rows.append((bar.workload, seconds(one.waterfall.gross / 1e9), *_shares(bar), _why_idle(one), named))
    heads = ("workload", "gross", *PARTS, "main cause of idle time", "largest findings")
    able = [name for name in all_groups()["zoo"] if mode == "infer" or get_workload(name).trains]
    return _table(f"{mode} · {len(rows)} of {len(able)} workloads", heads, rows)


def _why_idle(one: Explanation) -> str:
    """The cause of most of the idle time, where there is any to speak of."""
    if one.idle is None or one.idle.idle < 0.02 * (one.breakdown.window if one.breakdown else 0):
        return ""
    most = max(one.idle.causes, key=lambda cause: cause.idle)
    return f"{most.cause} ({most.idle / one.idle.idle:.0%})"


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return f"### {title}\n\n{table(heads, rows, WORDS)}"


def pending(kept: Path, mode: str) -> list[str]:
    """The workloads whose breakdown the file does not have yet."""
    published = read(kept) if kept.exists() else None
    cases = published.explanations if published else []
    done = {one.workload for one in cases if published and one.case in published.findings}
    return [name for name in all_groups()["zoo"] if name not in done and not get_workload(name).refusal({mode})]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        keep(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        PAGE.write_text(page())
