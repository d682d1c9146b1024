"""The example for teams: what docker would start is started here, without docker and without torch."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psutil
import pytest
import yaml
from commandline import planted_tare, tare
from packaging.specifiers import SpecifierSet
from postgres import PASSWORD, running_server
from sites import own_record

from tare.store.database import Store
from tare.system.variables import STORE

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


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((TEAM / "docker-compose.yml").read_text())
    return document


def assert_known(home: Path, arguments: Sequence[str]) -> None:
    """The command has a help, which names all options."""
    names = list(takewhile(lambda word: not word.startswith("-") and word not in ("ci", "ada"), arguments))
    done = tare(home, *names, "--help")
    assert done.returncode == 0, done.stderr
    assert {word for word in arguments if word.startswith("-")} <= set(re.findall(r"--?[a-z][a-z-]*", done.stdout))


def test_what_the_compose_file_names_is_there(tmp_path: Path) -> None:
    """Services, volumes, files, variables, options and ports, each where the others look for it."""
    document = compose()
    services, site = document["services"], document["services"]["site"]
    assert set(services) == {"db", "site", "proxy"}
    assert (TEAM / site["build"]["context"]).resolve() == ROOT
    assert (ROOT / site["build"]["dockerfile"]).is_file()
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(document["volumes"])
    # A service that is waited for until it is healthy says when it is.
    assert all("healthcheck" in services[name] for name in site["depends_on"])
    url, database = urlsplit(site["environment"][STORE]), services["db"]["environment"]
    assert (url.scheme, url.hostname, url.password) == ("postgresql+psycopg", "db", None)
    assert (url.username, url.path) == (database["POSTGRES_USER"], f"/{database['POSTGRES_DB']}")
    assert set(site["environment"]) == {STORE, "PGPASSWORD"}
    assert site["environment"]["PGPASSWORD"] == "${POSTGRES_PASSWORD}"
    assert services["db"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    port = site["command"][site["command"].index("--port") + 1]
    assert f"http://127.0.0.1:{port}/health" in site["healthcheck"]["test"][-1]
    assert services["proxy"]["command"][-2:] == ["--to", f"site:{port}"]
    assert_known(tmp_path, site["command"])


def test_the_page_names_the_variables_and_the_commands_that_the_example_has(tmp_path: Path) -> None:
    page, file = (ROOT / "docs" / "team.md").read_text(), (TEAM / "docker-compose.yml").read_text()
    starts = re.search(r"\n *((?:[A-Z_]+=\S+ )+)docker compose up -d\n", page)
    assert starts
    variables = {pair.partition("=")[0] for pair in starts[1].split()}
    assert variables == set(re.findall(r"\$\{([A-Z_]+)", file))
    # What has no default is asked for, where it is first used.
    assert {name for name in variables if f"${{{name}:?" in file} == variables
    (executed,) = re.findall(r"docker compose exec (\w+) tare (.*)", page)
    assert executed[0] in compose()["services"]
    assert_known(tmp_path, executed[1].split())


def test_the_image_starts_what_is_installed(tmp_path: Path) -> None:
    text = (TEAM / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (entry,) = re.findall(r"ENTRYPOINT (.*)", text)
    assert json.loads(entry)[0] in project["scripts"]
    (arguments,) = re.findall(r"^CMD (.*)", text, re.MULTILINE)
    assert_known(tmp_path, json.loads(arguments))
    assert (ROOT / "constraints.txt").is_file()
    version = re.search(r"FROM python:(\d+\.\d+)", text)
    assert version
    assert SpecifierSet(project["requires-python"]).contains(version[1])


@pytest.mark.full
def test_the_example_takes_records_and_a_night_without_showing_its_password(tmp_path: Path) -> None:
    """What docker would start: a real PostgreSQL with that user and database, the site's command with that
    environment and without torch, its health check, the token, a push, and a night."""
    services = compose()["services"]
    database, site = services["db"]["environment"], services["site"]
    with running_server() as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        assert database["POSTGRES_USER"] == "tare", "as of the server of the tests"
        server.create(database["POSTGRES_DB"])
        given = {"POSTGRES_PASSWORD": PASSWORD, "SITE": "bench.example.org"}

        def fill_in(text: str) -> str:
            # As docker compose does; the network's names and the published port are those of this machine.
            filled = re.sub(r"\$\{([A-Z_]+)(?::\?[^}]*)?\}", lambda found: given[found[1]], text)
            return filled.replace("@db/", f"@127.0.0.1:{server.port}/").replace("8700", port)

        variables = {name: fill_in(value) for name, value in site["environment"].items()}
        environment = {**os.environ, **variables, "TARE_HOME": str(tmp_path / "site")}
        command = [fill_in(word) for word in site["command"]]
        command[command.index("--host") + 1] = "127.0.0.1"
        log = tmp_path / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", WITHOUT_TORCH, *command], env=environment, stdout=output, stderr=output
            )
        try:
            address = f"http://127.0.0.1:{port}/"
            assert read(f"{address}health") == (200, "ok")
            subprocess.run([sys.executable, *map(fill_in, site["healthcheck"]["test"][2:])], check=True)
            assert read(f"{address}runs/")[0] == 401
            assert PASSWORD not in " ".join(psutil.Process(process.pid).cmdline())
            token = tmp_path / "ci.token"
            create = ("serve", "token", "create", "ci", "--write", "-o", str(token))
            made = subprocess.run(
                [sys.executable, "-c", WITHOUT_TORCH, *create], env=environment, capture_output=True, text=True
            )
            assert made.returncode == 0, made.stderr
            home = tmp_path / "machine"
            home.mkdir()
            with Store(str(home / "records.db")) as opened:
                opened.add([own_record()])
            to = ("--to", address, "--token-file", str(token))
            pushed = json.loads(planted_tare(home, "push", *to, "--json").stdout)
            assert (pushed["records"], pushed["sent"]) == (1, 1)
            night = planted_tare(
                home, "nightly", "planted_tiny", "--rung", "eager", "--rounds", "4", "--budget", "0.4",
                "--baseline", "main", "--output", str(tmp_path / "nights"), *to, "--json",
            )  # fmt: skip
            assert night.returncode == 0, night.stderr
            told = json.loads(night.stdout)
            assert (told["is_first"], told["pushed"]["sent"], told["push_failed"]) == (True, 1, "")
            request = Request(
                f"{address}runs/data.json", headers={"Authorization": f"Bearer {token.read_text().strip()}"}
            )
            with urlopen(request, timeout=10) as answer:
                shown = answer.read().decode()
            runs = json.loads(shown)["tables"]["runs"]
            assert {(run["name"], run["good"]) for run in runs} == {("imported", 1), ("planted_tiny", 1)}
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
        assert PASSWORD not in shown + log.read_text() + made.stdout + made.stderr + night.stdout + night.stderr


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
