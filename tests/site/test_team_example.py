"""The example for teams: what docker would start is started here, without docker and without torch."""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml
from sites import own_record, token_of

from tare.store.database import Store

ROOT = Path(__file__).parents[2]
TEAM = ROOT / "examples" / "team"
# As on a machine where torch is not installed.
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from tare.cli import main; main()"
START_S = 60


def package(requirement: str) -> str:
    return re.split(r"[<>=\[ ]", requirement.strip("'\""))[0].lower()


def test_the_image_has_every_package_but_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = {package(each) for each in (*project["dependencies"], *extras["serve"], *extras["postgres"])}
    text = (TEAM / "Dockerfile").read_text().replace("\\\n", " ")
    installed = re.search(r"constraints\.txt +(.*?) +&&", text)
    assert installed
    assert {package(each) for each in installed[1].split()} == needed - {"torch"}


@pytest.mark.full
def test_the_site_of_the_example_starts_and_answers(tmp_path: Path) -> None:
    services = yaml.safe_load((TEAM / "docker-compose.yml").read_text())["services"]
    assert set(services) == {"db", "site", "proxy"}
    command = [word.replace("${SITE:?the name of the site, as in bench.example.org}", "bench.example.org")
               for word in services["site"]["command"]]  # fmt: skip
    command[command.index("--port") + 1] = "0"
    command[command.index("--host") + 1] = "127.0.0.1"
    store = tmp_path / "records.db"
    with Store(str(store)) as opened:
        opened.add([own_record()])
        token_of(opened)
    environment = {**os.environ, "TARE_STORE": str(store), "TARE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH, *command], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().partition(" ")[0]
        assert read(f"{address}health") == (200, "ok")
        assert read(f"{address}runs/")[0] == 401
        check = " ".join(services["site"]["healthcheck"]["test"])
        assert "/health" in check
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)


def read(address: str) -> tuple[int, str]:
    end = time.monotonic() + START_S
    while True:
        try:
            with urlopen(address, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except URLError as error:
            if hasattr(error, "code"):
                return error.code, ""
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
