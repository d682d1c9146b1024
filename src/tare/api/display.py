"""How a result of the API shows itself: as text where it is printed, as a table in a notebook."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tare.report.view import View


class Displayed:
    """A result with a view. `print` shows it as a terminal would; a notebook shows its HTML."""

    def view(self) -> "View":
        raise NotImplementedError

    def __str__(self) -> str:
        from tare.report.terminal import plain_text

        return plain_text(self.view()).rstrip("\n")

    def to_markdown(self) -> str:
        """The same as Markdown, for an issue or a pull request."""
        from tare.report.formats.markdown import markdown

        return markdown(self.view())

    def _repr_html_(self) -> str:
        from tare.report.page import render_fragment

        return render_fragment(self.view())
