"""A page in a real Chromium without a window: what it logs, and what a script of the test finds in it."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Comes before every script of the page, so that no error is missed.
WATCH = """<script>
window.seen = { errors: [] };
addEventListener("error", event => seen.errors.push(event.message));
addEventListener("unhandledrejection", event => seen.errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", event => seen.errors.push("blocked " + event.blockedURI));
</script>"""
REPORT = """<script>
addEventListener("load", async () => {
  const pause = () => new Promise(resolve => setTimeout(resolve, 50));
  try { await (async () => { %s })(); } catch (error) { seen.errors.push(String(error)); }
  const found = document.createElement("pre");
  found.id = "seen-by-the-test";
  found.textContent = JSON.stringify(seen);
  document.body.append(found);
});
</script>"""


def look_at(page: str, script: str, folder: Path) -> dict[str, Any]:
    """What `script` puts into `seen`, with the errors that the page has raised under `errors`."""
    assert CHROMIUM is not None
    path = folder / "page.html"
    path.write_text(page.replace("<title>", WATCH + "<title>", 1).replace("</html>", REPORT % script + "</html>"))
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,900"]
    command += [
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    found = re.search(r'<pre id="seen-by-the-test">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    document: dict[str, Any] = json.loads(unescape(found[1]))
    return document
