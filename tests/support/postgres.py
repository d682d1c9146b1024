"""A real PostgreSQL server for tests, on a port of its own, where its programs are installed."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

PASSWORD = "hunter2-of-the-tests"
# Debian's place, for programs that are not on the path.
DEBIAN = Path("/usr/lib/postgresql")
START_S = 60


def programs() -> Path | None:
    """The folder of initdb and postgres; None where PostgreSQL is not installed."""
    for folder in sorted(DEBIAN.glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class PostgresServer:
    """Refuses to run as root, as PostgreSQL does: then it runs as `nobody`."""

    def __init__(self, folder: Path) -> None:
        self._programs, self._user = folder, "nobody" if os.geteuid() == 0 else None
        self._home = Path(tempfile.mkdtemp(prefix="tare-postgres-"))
        self._data = self._home / "data"
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self._own(self._home)
        password = self._home / "password"
        password.write_text(PASSWORD)
        self._own(password)
        self._run("initdb", "-D", str(self._data), "-U", "tare", "-A", "scram-sha-256", f"--pwfile={password}",
                  "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = '{self._home}'\n"
                "fsync = off\nfull_page_writes = off\nmax_connections = 200\nshared_buffers = '64MB'\n"
            )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self._data)], stdout=log, stderr=log, user=self._user,
                cwd=self._home,
            )  # fmt: skip
        end = time.monotonic() + START_S
        while True:
            try:
                self._connect("postgres").close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise RuntimeError((self._home / "log").read_text()[-2000:]) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Ends it at once, as a server that is restarted does: open connections break."""
        if self._process is not None:
            # SIGINT is PostgreSQL's fast shutdown.
            self._process.send_signal(2)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def create(self, name: str) -> None:
        with self._connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")

    def new_database(self) -> str:
        """The URL of an empty database, with its password."""
        name = f"tare_{secrets.token_hex(6)}"
        self.create(name)
        return f"postgresql+psycopg://tare:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        name = url.rpartition("/")[2]
        with self._connect("postgres") as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="tare", password=PASSWORD, dbname=database, autocommit=True
        )

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments], check=True, capture_output=True, user=self._user,
            cwd=self._home, env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip

    def _own(self, path: Path) -> None:
        if self._user:
            entry = pwd.getpwnam(self._user)
            os.chown(path, entry.pw_uid, entry.pw_gid)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Skips the test where PostgreSQL is not installed."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    server = PostgresServer(folder)
    try:
        yield server
    finally:
        server.close()
