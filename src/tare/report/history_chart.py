"""A history as a chart: SVG, alone or in a page of HTML."""

from collections.abc import Sequence
from html import escape

from tare.guard.history import History
from tare.report.bisect import change_text
from tare.report.history import axis, date_range, extent, figure, fitted_values
from tare.report.plot import is_flat, shown_range

WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 54, 44
TICKS = 5
# Series of more than MANY points are drawn with smaller dots.
DOT, SMALL_DOT, MANY = 2.4, 1.1, 600
STYLE = """
text{font:13px system-ui,sans-serif;fill:#333}.t{font-weight:600;font-size:14px}.d{fill:#777;font-size:12px}
.g{stroke:#e6e6e6}.p{fill:#5b7aa6;fill-opacity:.7}.f{stroke:#1b2a41;stroke-width:2;fill:none}
.u{fill:#c0392b;fill-opacity:.16}.l{fill:#1e8449;fill-opacity:.16}.s{font-weight:600;font-size:12px}
"""


def chart_svg(history: History) -> str:
    values, fitted = [p.value for p in history.points], fitted_values(history)
    low, high = _padded(*shown_range(values, fitted))
    n = len(values)

    def x(index: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / n

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - min(max(value, low), high)) / (high - low)

    parts = [_text(LEFT, 20, history.name[:130], "t"), _text(LEFT, 38, _facts(history), "d")]
    for i, label in enumerate(reversed(axis(low, high, TICKS, history.unit))):
        value = low + (high - low) * i / (TICKS - 1)
        parts.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(_text(LEFT - 8, y(value) + 4, label, "d", "end"))
    for change in history.change_points:
        a, b = x(change.earliest - 1), x(change.latest)
        kind = "u" if change.now > change.before else "l"
        box = f'x="{a:.1f}" y="{TOP}" width="{max(b - a, 3):.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        parts.append(f'<rect class="{kind}" {box}><title>{escape(date_range(change))}</title></rect>')
        # Near the right edge the text is left of its change.
        late = a > WIDTH * 0.8
        label = change_text(change.ratio, None, None)
        parts.append(_text(a - 6 if late else b + 6, TOP + 12, label, "s", "end" if late else "start"))
    radius = SMALL_DOT if n > MANY else DOT
    for i, point in enumerate(history.points):
        tip = escape(f"{point.created[:16]} {point.label[:40]} {figure(point.value, history.unit)}")
        # A tip for every one of many points would make the file ten times as large.
        inner = "" if n > MANY else f"<title>{tip}</title>"
        parts.append(f'<circle class="p" cx="{x(i):.1f}" cy="{y(point.value):.1f}" r="{radius}">{inner}</circle>')
    for start, stop, first, last in history.segments:
        line = f"M{x(start):.1f},{y(first):.1f}L{x(stop - 1):.1f},{y(last):.1f}"
        parts.append(f'<path class="f" d="{line}"/>')
    parts.append(_text(LEFT, HEIGHT - 18, history.points[0].created[:10], "d"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 18, history.points[-1].created[:10], "d", "end"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">'
    return "\n".join(
        [head, f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"]
    )


def chart_html(histories: Sequence[History]) -> str:
    """A page with every history and its change points in words."""
    from tare.report.page import render_page, safe_svg

    sections = []
    for history in histories:
        changes = [
            (f"{change_text(point.ratio, point.low, point.high)} {date_range(point)}", point.environment_changes)
            for point in history.change_points
        ]
        sections.append((safe_svg(chart_svg(history)), changes))
    return render_page("history.html", sections=sections)


def _padded(low: float, high: float) -> tuple[float, float]:
    pad = high * 0.05 or 1.0 if is_flat(low, high) else (high - low) * 0.08
    return low - pad, high + pad


def _facts(history: History) -> str:
    return " · ".join([history.metric, *extent(history)])


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
