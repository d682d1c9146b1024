"""Writes the table of docs/workloads.md from the registry. A test compares."""

from pathlib import Path

from tare.workloads import Workload, all_workloads
from tare.workloads.base import DOMAINS

PAGE = Path(__file__).parents[2] / "docs" / "workloads.md"
MARK = "<!-- the table below is written by scripts/tables/workloads.py -->\n"
TITLES = {
    "vision": "Vision", "nlp": "Language", "multimodal": "Images and text", "speech": "Speech and audio",
    "recommendation": "Recommendation", "rl": "Reinforcement learning", "graph": "Graphs", "other": "Other",
}  # fmt: skip


def table(workloads: dict[str, Workload]) -> str:
    """One table a domain: the full size, and where it comes from with what differs."""
    parts = []
    for domain in DOMAINS:
        rows = {name: w for name, w in workloads.items() if w.domain == domain}
        parts.append(f"\n### {TITLES[domain]} (`@{domain}`, {len(rows)})\n")
        parts.append("| workload | task | full size | source; what differs |\n| --- | --- | --- | --- |")
        parts += [_row(name, workload) for name, workload in rows.items()]
    return "\n".join(parts) + "\n"


def _row(name: str, workload: Workload) -> str:
    size = " ".join(f"{key}={value}" for key, value in {"batch": workload.batch, **workload.defaults}.items())
    text = workload.source + (f"; differs: {workload.differs}" if workload.differs else "")
    lacks = "; ".join(f"no {what} ({why})" for what, why in workload.unsupported.items())
    text += f"; {lacks}" if lacks else ""
    marks = "".join(f" `@{group}`" for group in workload.groups)
    return f"| `{name}`{marks} | {workload.task} | {size} | {text} |"


def page(workloads: dict[str, Workload]) -> str:
    return PAGE.read_text().partition(MARK)[0] + MARK + table(workloads)


if __name__ == "__main__":
    PAGE.write_text(page(all_workloads()))
