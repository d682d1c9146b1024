"""What a server of language models does with its time: a table of its kinds of iterations, and a few lines."""

from collections.abc import Iterator

from rich.text import Text

from tare.report.numbers import percent, seconds, several
from tare.report.serving_timeline import timeline_svg, timeline_text
from tare.report.view import Cell, Drawing, FittingTable, View
from tare.trace.serving import IterationFigures, Serving, mean_over_time


def serving_view(server: Serving | None) -> View:
    """Nothing for a trace of something else."""
    if server is None:
        return View()
    count = sum(figures.count for figures in server.kinds)
    head = f"serving: {several(count, 'iteration')} by the {_source(server.source)}"
    view = View().add("faint", f"{head}; times are those of the profiled run")
    rows = [_row(server, figures) for figures in server.kinds]
    if server.between.total:
        share = percent(server.between.total / server.window)
        rows.append({**dict.fromkeys(rows[0], ""), "iterations": "between them", "of time": share})
    view.put(FittingTable(rows, words=("iterations",), spare=("device busy",)))
    view.put(Drawing(lambda width: Text(timeline_text(server, width)), svg=lambda: timeline_svg(server)))
    view.add("aside", "in the order of time: P prefill, d decode, m mixed, ? unknown, · between iterations")
    for line in _lines(server):
        view.add("plain", line)
    return view.add("note", *server.notes)


def _source(source: str) -> str:
    return source if " " in source else f"ranges of {source}"


def _row(server: Serving, figures: IterationFigures) -> dict[str, Cell]:
    return {
        "iterations": figures.kind,
        "count": str(figures.count),
        "of time": percent(figures.total / server.window) if server.window else "-",
        "median": seconds(figures.median / 1e9),
        "p95": seconds(figures.p95 / 1e9),
        "device busy": "-" if not figures.total or figures.busy is None else percent(figures.busy / figures.total),
        "sequences": _number(figures.sequences),
        "of most": _share(figures.sequences, server.largest_sequences),
        "tokens": _number(figures.tokens),
    }


def _number(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.3g}" if mean < 1000 else f"{mean:,.0f}"


def _share(mean: float | None, largest: int | None) -> str:
    return "-" if mean is None or not largest else percent(mean / largest)


def _lines(server: Serving) -> Iterator[str]:
    largest = (("sequence", server.largest_sequences), ("token", server.largest_tokens))
    parts = []
    for one, most in largest:
        mean = mean_over_time([(each.ns, getattr(each, f"{one}s")) for each in server.iterations])
        if mean is not None and most:
            parts.append(f"{_number(mean)} of at most {several(most, one)} ({percent(mean / most)})")
    if parts:
        yield f"batch, over the time of the iterations: {', '.join(parts)}"
    if times := server.token_times:
        figures = ((name, getattr(times, name)) for name in ("median", "p95", "p99", "longest"))
        shown = ", ".join(f"{name} {seconds(ns / 1e9)}" for name, ns in figures)
        text = f"time between tokens, {times.count} times: {shown}"
        yield text + (f"; {times.interrupted} of them with a prefill between" if times.interrupted else "")
    between = server.between
    if between.total:
        # In the order of BetweenIterations.
        names = {
            "device": "the device works",
            "waiting": "the host waits (for requests)",
            "scheduling": "the host works (schedules, samples)",
            "unknown": "not known",
        }
        known = {text: getattr(between, name) for name, text in names.items()}
        shown = ", ".join(f"{text} {percent(ns / between.total)}" for text, ns in known.items() if ns)
        yield f"between iterations: {shown}"
