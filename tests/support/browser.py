"""A real Chromium, driven by Playwright: what a page logs, fetches and shows."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Without these, Chromium asks its maker's servers for updates.
QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]  # fmt: skip


class WatchedPage:
    """A page whose errors and requests are kept."""

    def __init__(self, page: Any) -> None:
        self.page, self.errors, self.requests = page, list[str](), list[str]()
        page.on("console", lambda message: self._hear(message))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.errors.append(f"failed: {request.url}"))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    @property
    def overflow(self) -> int:
        """Pixels that stand out to the right of the window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, *sandbox])
        yield opened
        opened.close()


@contextmanager
def window(opened: Any, width: int = 1200, dark: bool = False) -> Iterator[WatchedPage]:
    context = opened.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    yield WatchedPage(context.new_page())
    context.close()
