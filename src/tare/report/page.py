"""A view as a page of HTML that needs nothing beside itself: no script, no font, no link."""

from tare.report.view import WORD_STYLES, View


def render_page(title: str, view: View) -> str:
    """Every text is escaped by the template, except for charts, which escape their texts themselves."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tare.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html").render(title=title, parts=view.parts, styles=WORD_STYLES)
