"""A view as HTML that needs nothing beside itself: no script, no font, no link."""

from typing import Any

from tare.report.view import WORD_STYLES, View


def render_page(title: str, view: View) -> str:
    return _render("page.html", view, title=title)


def render_fragment(view: View) -> str:
    """A part of a page, as a notebook shows it under a cell."""
    return _render("fragment.html", view)


def _render(template: str, view: View, **variables: Any) -> str:
    """Every text is escaped by the template, except for charts, which escape their texts themselves."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tare.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(template).render(parts=view.parts, styles=WORD_STYLES, **variables)
