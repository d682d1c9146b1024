"""HTML pages that need nothing beside themselves: no script, no font, no link. The templates are in templates/."""

from pathlib import Path
from typing import Any

from tare.findings.diagnosis import Diagnosis
from tare.report.charts import overviews, waterfall_svg
from tare.report.explain import IDLE_HEADS, ExplainReport, against_cells, idle_rows, summary
from tare.report.files import write_whole
from tare.report.findings import findings_title, kernel_cells, kinds_at_peak, operator_cells, saving_text
from tare.report.numbers import size
from tare.trace.explanation import Explanation

# Of operators, kernels and owners of memory.
ROWS = 10


def render_page(template: str, **values: Any) -> str:
    """Every value is escaped; `safe_svg` marks what is not."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("tare.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def safe_svg(svg: str) -> Any:
    """A chart of ours, which has escaped its texts itself."""
    from markupsafe import Markup

    return Markup(svg)


def write_html(report: ExplainReport, path: Path) -> None:
    cases = zip(report.explanations, report.diagnoses, strict=True)
    page = render_page(
        "explain.html",
        title=", ".join(dict.fromkeys(one.title for one in report.explanations)),
        overviews=[safe_svg(svg) for svg in overviews(report)],
        against=[{"other": one.other, "table": against_cells(one)} for one in report.against],
        cases=[_case(explanation, diagnosis) for explanation, diagnosis in cases],
        failed=report.failed,
    )
    write_whole(path, page)


def _case(one: Explanation, diagnosis: Diagnosis) -> dict[str, Any]:
    steps, memory = diagnosis.recorded_steps, diagnosis.memory
    # Title, heads, rows, and the columns that are aligned to the left.
    tables: list[tuple[Any, ...]] = []
    if one.breakdown and one.idle and one.idle.idle:
        tables.append(("Why the device was idle", IDLE_HEADS, idle_rows(one.idle, one.places), (0, 3)))
    if diagnosis.kernels:
        tables.append(("Kernels, a step", *kernel_cells(diagnosis.kernels, steps, ROWS), (0,)))
    operators = operator_cells(diagnosis.operators, steps, ROWS)
    tables.append(("Operators, a step of the profiled run", *operators, (0,)))
    if memory:
        owners = [(owner.where, owner.kind, size(owner.bytes)) for owner in memory.owners[:ROWS]]
        title = f"Memory: a peak of {size(memory.peak_bytes)} allocated ({kinds_at_peak(memory)})"
        tables.append((title, ("at the peak", "kind", "bytes"), owners, (0, 1)))
    return {
        "waterfall": safe_svg(waterfall_svg(one.waterfall, on_host=one.breakdown is None)),
        "summary": summary(one),
        "findings_title": findings_title(diagnosis).capitalize(),
        "findings": [(finding, saving_text(finding)) for finding in diagnosis.findings],
        "tables": tables,
        "notes": [*one.notes, *one.waterfall.notes],
    }
