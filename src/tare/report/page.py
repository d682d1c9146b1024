"""What was explained as one page to send around: pictures, findings, why the device was idle, tables, memory."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from tare.findings.diagnosis import Diagnosis
from tare.findings.finding import Finding
from tare.report.charts import waterfall_svg
from tare.report.explain import IDLE, against_cells, idle_rows, summary
from tare.report.explained import Explained
from tare.report.files import write_whole
from tare.report.findings import kernel_cells, kinds_at_peak, operator_cells, saving
from tare.report.numbers import seconds, size
from tare.report.pictures import overviews
from tare.report.svg import DARK, FAINT, GRID, INK, PAPER
from tare.trace.explanation import Explanation
from tare.trace.memory import MemoryUse

# Of operators, kernels and owners of memory.
ROWS = 10
SEVERITY = {"high": "#c62828", "medium": "#b26a00", "low": "#666"}
STYLE = f"""
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 960px }}
body {{ color: {INK}; background: {PAPER} }}
figure {{ margin: 2rem 0 }} svg {{ max-width: 100%; height: auto }} section {{ margin: 3rem 0 }}
h3 {{ font-size: 1rem; margin: 1.5rem 0 .4rem }} .note, .place {{ color: {FAINT}; font-size: .9rem }}
div.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }}
td, th {{ text-align: right; white-space: nowrap; padding: .2rem .7rem .2rem 0; vertical-align: top }}
td, th {{ border-bottom: 1px solid {GRID} }} th {{ font-weight: 600 }}
.left {{ text-align: left; white-space: normal; overflow-wrap: anywhere }}
:root {{ color-scheme: light dark }}
@media (prefers-color-scheme: dark) {{
  body {{ background: {DARK[PAPER]}; color: {DARK[INK]} }} .note, .place {{ color: {DARK[FAINT]} }}
  td, th {{ border-color: {DARK[GRID]} }}
}}
"""


def write_html(explained: Explained, path: Path) -> None:
    """A page that needs nothing beside itself: no script, no font, no link."""
    titles = ", ".join(dict.fromkeys(one.title for one in explained.explanations))
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>tare explain: {escape(titles)}</title>"
    body = [f"<figure>{svg}</figure>" for svg in overviews(explained)]
    for removed in explained.against:
        body += [f"<h3>What {escape(removed.other)} removed</h3>", _table(*against_cells(removed))]
    for one, diagnosis in zip(explained.explanations, explained.diagnoses, strict=True):
        body += ["<section>", *_case(one, diagnosis), "</section>"]
    body += [_note(f"{case}: {why}") for case, why in explained.failed.items()]
    write_whole(path, "\n".join([head, f"<style>{STYLE}</style>", *body, "</html>"]))


def _case(one: Explanation, diagnosis: Diagnosis) -> list[str]:
    parts = [f"<figure>{waterfall_svg(one.waterfall, on_host=one.breakdown is None)}</figure>"]
    parts.append(f"<p>{escape(summary(one))}.</p>")
    parts += _findings(diagnosis)
    if one.breakdown and one.idle and one.idle.idle:
        parts += ["<h3>Why the device was idle</h3>", _table(IDLE, idle_rows(one.idle, one.places), (0, 3))]
    steps = diagnosis.recorded_steps
    if diagnosis.kernels:
        parts += ["<h3>Kernels, a step</h3>", _table(*kernel_cells(diagnosis.kernels, steps, ROWS))]
    parts += ["<h3>Operators, a step of the profiled run</h3>"]
    parts.append(_table(*operator_cells(diagnosis.operators, steps, ROWS)))
    parts += _memory(diagnosis.memory) if diagnosis.memory else []
    return parts + [_note(note) for note in (*one.notes, *one.waterfall.notes)]


def _findings(found: Diagnosis) -> list[str]:
    if not found.findings:
        return ["<h3>Findings</h3>", "<p>None.</p>"]
    step = f"a {'profiled step' if found.profiled else 'step'} of {seconds(found.step_s)}"
    head = f"<h3>Findings: what fixing each saves of {escape(step)} (savings overlap)</h3>"
    rows = "".join(_finding(one) for one in found.findings)
    return [head, f"<div class='wide'><table>{rows}</table></div>"]


def _finding(one: Finding) -> str:
    places = "".join(f"<div class='place'>at {escape(place.where)}</div>" for place in one.locations[:ROWS])
    said = f"<b>{escape(one.rule)}</b>: {escape(one.summary)}<br>→ {escape(one.remedy)}{places}"
    severity = f"<td style='color:{SEVERITY[one.severity]}'><b>{one.severity}</b></td>"
    return f"<tr>{severity}<td>{escape(saving(one))}</td><td class='left'>{said}</td></tr>"


def _memory(use: MemoryUse) -> list[str]:
    rows = [(owner.where, owner.kind, size(owner.bytes)) for owner in use.owners[:ROWS]]
    head = f"<h3>Memory: a peak of {escape(size(use.peak_bytes))} allocated</h3>"
    return [head, f"<p>{escape(kinds_at_peak(use))}</p>", _table(("at the peak", "kind", "bytes"), rows, (0, 1))]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        sides = (" class='left'" if i in left else "" for i in range(len(cells)))
        return f"<tr>{''.join(f'<{tag}{s}>{escape(c)}</{tag}>' for s, c in zip(sides, cells, strict=True))}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    return f"<div class='wide'><table>{row('th', heads)}{body}</table></div>"


def _note(text: str) -> str:
    return f"<p class='note'>{escape(text)}</p>"
