"""tare run --on and tare fleet: what is refused before anything is measured, each in one line."""

import socket
from pathlib import Path

import pytest
from commandline import tare


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("run", "mlp", "--jobs-per-node", "2"), "--jobs-per-node is for a fleet: name its cluster with --on"),
        (("run", "mlp", "--no-calibrate"), "--no-calibrate is for a fleet: name its cluster with --on"),
        (("run", "mlp", "--on", "ray", "--jobs", "2"), "--jobs: with --on it is --jobs-per-node"),
        (("run", "mlp", "--on", "ray", "--recorded"), "--recorded and --on do not go together"),
        (("run", "mlp", "--on", "ray", "--dry-run"), "--dry-run and --on do not go together"),
        (("run", "mlp", "--on", "ray", "--batch", "auto"), "--batch auto searches on one machine: leave out --on"),
        (("run", "--on", "ray", "--", "echo"), "a command is measured on this machine: leave out --on"),
        (("run", "mlp", "--on", "cluster"), "--on 'cluster' is no cluster: want ray://HOST:PORT"),
        (
            ("fleet", "status", "--node", "speed=2"),
            "--node takes FACT=VALUE, not 'speed=2' (facts: name, host, arch,",
        ),
        (("check", "mlp", "--drift", "0.2"), "--drift is for a fleet: name its cluster with --on"),
        (
            ("check", "mlp", "--on", "ray", "--baseline-dir", "."),
            "--baseline-dir and --on do not go together: the node has folders of its own",
        ),
        (("check", "mlp", "--on", "ray"), "nothing to compare with: name --baseline"),
        (("check", "mlp", "--on", "cluster", "--baseline", "main"), "--on 'cluster' is no cluster"),
        (("fleet",), "tare fleet takes a command: status"),
    ],
)
def test_what_does_not_go_together_is_one_line(tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    done = tare(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tare: {line}")
    assert len(done.stderr.splitlines()) == 1


def test_the_password_of_an_address_is_not_repeated(tmp_path: Path) -> None:
    done = tare(tmp_path, "run", "mlp", "--on", "ray://me:geheim@head:10001")
    assert done.returncode == 2
    assert done.stderr.startswith("tare: --on takes an address without a user: ray://HOST:PORT")
    assert "geheim" not in done.stdout + done.stderr


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        for on, variables in ((f"ray://{address}", {}), ("ray", {"RAY_ADDRESS": address})):
            done = tare(tmp_path, "fleet", "status", "--on", on, **variables)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1].startswith("tare: no cluster at ")


def test_without_ray_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError")
    done = tare(tmp_path, "fleet", "status", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "tare: --on ray needs Ray: pip install 'tare-bench[fleet]'"
