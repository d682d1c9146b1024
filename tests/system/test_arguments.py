"""A password in the arguments of a running process is not shown to others."""

import subprocess
import sys
from pathlib import Path

import pytest

SHOW = """
import sys
from tare.system.arguments import hide_arguments
hide_arguments()
print(sys.argv[-1], flush=True)
sys.stdin.read()
"""


def shown(*arguments: str) -> tuple[list[str], str]:
    """The arguments that Linux shows, and the last one as the process itself has it."""
    with subprocess.Popen(
        [sys.executable, "-c", SHOW, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        own = process.stdout.readline().strip()
        seen = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
        process.stdin.close()
    return seen[3:-1], own


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the arguments of a process are seen otherwise")
def test_passwords_of_addresses_are_overwritten_for_others_alone() -> None:
    url = "postgresql+psycopg://tare:hunter2@db.example/tare"
    seen, own = shown("run", "mlp", "--store", url)
    assert own == url
    assert seen == ["run", "mlp", "--store", "postgresql+psycopg://tare:*******@db.example/tare"]
    assert shown("show", "my.py::Net", "a@b")[0] == ["show", "my.py::Net", "a@b"]
    assert "hunter2" not in " ".join(shown(f"--store={url}")[0])
    assert "pässwort" not in " ".join(shown("--store", "postgresql://u:pässwort@h/d")[0])
