"""The verbs of a team as a user meets them: a site, its tokens, records sent to it, nights."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from builders import make_case, make_record
from commandline import planted_tare, start_tare, tare

from tare.store.database import Store
from tare.store.journal import begin

SITE = "https://bench.example.org"
PLAN = """
[options]
rounds = 4
budget = 0.2
parity = false
[[grid]]
workload = ["planted_wait"]
rung = ["eager"]
threads = [1]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store with one record."""
    with Store(str(tmp_path / "records.db")) as store:
        journal = begin(store, "night", "mark", [])
        journal.add_record(make_record(make_case(), run=journal.run, id="first"))
    return tmp_path


BAD = [
    (("serve", "--read", "all"), "--read takes open or token, not 'all'"),
    (("serve", "--commits", "https://example.org/"), "--commits takes an address with {commit} in it"),
    (("serve", "--commits", "javascript:{commit}"), "--commits takes an address with {commit} in it"),
    (("serve", "--host", "no.such.host.invalid"), "cannot listen on no.such.host.invalid:8700"),
    (("serve", "--webhook-file", "nowhere"), "cannot read the webhook's address from nowhere"),
    (("serve", "--export", "."), "is not an empty folder"),
    (("serve", "token"), "create, list, revoke"),
    (("serve", "token", "revoke", "nobody"), "nobody"),
    (("push",), "name the site: --to https://HOST"),
    (("push", "--to", SITE), "a token is needed: --token-file FILE, or TARE_TOKEN"),
    (("push", "--to", "bench.example.org", "--token-file", "token"), "is no address of a site"),
    (("push", "--to", "http://bench.example.org", "--token-file", "token"), "use https://, or --plain"),
    (("push", "--to", "https://me:secret@bench.example.org", "--token-file", "token"), "no user and no password"),
    (("nightly", "no_such_workload"), "no_such_workload"),
    (("nightly", "mlp", "--output", "token"), "cannot make the folder token/"),
    (("store",), "check, copy, vacuum, export, upgrade"),
    (("store", "vacuum", "--samples-older-than", "x"), "--samples-older-than"),
]


@pytest.mark.parametrize(("args", "told"), BAD, ids=[" ".join(args)[:60] for args, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    home: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(home)
    (home / "token").write_text("tare_token\n")
    done = tare(home, *args)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("tare: ")
    assert told in line
    assert "secret" not in line


@contextmanager
def site(home: Path) -> Iterator[str]:
    """`tare serve` on a free port, ended as with Ctrl-C."""
    running = start_tare(home, "serve", "--port", "0")
    assert running.stdout is not None
    assert running.stderr is not None
    try:
        line = running.stdout.readline()
        address = re.match(r"(http://127\.0\.0\.1:\d+)/ shows .*records\.db; Ctrl-C ends it", line)
        assert address, running.stderr.read()
        yield address[1]
    finally:
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=60)
        assert "Traceback" not in stderr


def token_file(home: Path) -> Path:
    path = home / "token"
    done = tare(home, "serve", "token", "create", "ci", "--write", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in done.stdout
    return path


@pytest.mark.full
def test_records_are_sent_to_a_site_once(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    server = tmp_path_factory.mktemp("server")
    key = token_file(server)
    with site(server) as address:
        sent = ("push", "--to", address, "--token-file", str(key), "--json")
        first, again = (json.loads(tare(home, *sent).stdout) for _ in range(2))
        assert [first["records"], first["sent"], again["records"], again["sent"]] == [1, 1, 1, 0]
        with urlopen(f"{address}/records/first/record.json") as answer:
            assert json.loads(answer.read())["id"] == "first"
        assert tare(server, "serve", "token", "revoke", "ci").returncode == 0
        refused = tare(home, *sent)
        assert refused.returncode == 2
        assert key.read_text().strip() not in refused.stderr
    gone = tare(home, *sent)
    assert gone.returncode == 1
    assert "does not answer" in gone.stderr


@pytest.mark.full
@pytest.mark.alone
def test_a_night_that_got_slower_is_reported_sent_and_shown(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home, server = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("server")
    (tmp_path / "night.toml").write_text(PLAN)
    key = token_file(server)

    def night(address: str, milliseconds: int) -> tuple[int, dict[str, Any]]:
        done = planted_tare(
            home, "nightly", str(tmp_path / "night.toml"), "--baseline", "main", "--metric", "gross", "--output",
            str(tmp_path / "nights"), "--to", address, "--token-file", str(key), "--json",
            PLANTED_MS=str(milliseconds),
        )  # fmt: skip
        document: dict[str, Any] = json.loads(done.stdout)
        return done.returncode, document

    # The site is away: the night is measured all the same, and the next one sends what is missing.
    code, first = night("http://127.0.0.1:1", 10)
    assert (code, first["is_first"], first["records"], first["regressions"]) == (1, True, 1, 0)
    assert "does not answer" in first["push_failed"]
    with site(server) as address:
        code, second = night(address, 20)
        assert (code, second["is_first"], second["regressions"]) == (1, False, 1)
        assert second["pushed"]["sent"] == second["pushed"]["records"] >= 2
        assert {Path(name).suffix for name in second["files"]} == {".html", ".md", ".json", ".xml"}
        assert all((Path(second["folder"]) / name).stat().st_size for name in second["files"])
        with urlopen(f"{address}/regressions/data.json") as answer:
            (regression,) = json.loads(answer.read())["tables"]["regressions"]
    named = (regression["workload"], regression["metric"], regression["source"])
    assert named == ("planted_wait", "gross", "check")
    assert 1.5 < regression["ratio"] < 2.5
