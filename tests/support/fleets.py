"""A real cluster of Ray on this machine: some nodes, each with a home and a lock of its own."""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from commandline import planted_environment

# Nodes that are lost are noticed within seconds; what starts is given time on a machine that others use.
SETTINGS = {
    "health_check_initial_delay_ms": 20_000,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 6,
    "health_check_timeout_ms": 2_000,
    "agent_register_timeout_ms": 240_000,
    "worker_register_timeout_seconds": 240,
}
STORE_BYTES = 80_000_000


class SimulatedFleet:
    """Nodes of one machine must not wait for each other as tares of one machine do: each has a lock of its own."""

    def __init__(self, folder: Path, names: list[str], client_port: int | None = None) -> None:
        # Ray reads these when it is imported, and its processes inherit them.
        os.environ |= {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_agent_register_timeout_ms": "240000",
            "RAY_gcs_server_port_wait_time_s": "240",
            "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "150",
            # Ray's own server forks while gRPC's threads work, and the child dies of it now and then.
            "GRPC_ENABLE_FORK_SUPPORT": "0",
        }
        # Ray starts the server of a client with the `python` of the PATH.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        from ray.cluster_utils import Cluster

        _wait_longer_for_nodes()
        self._folder, self._nodes, self.client_port = folder, dict[str, Any](), client_port
        head: dict[str, Any] = {"num_cpus": 0, "node_name": "head", "_system_config": SETTINGS}
        if client_port is not None:
            head["ray_client_server_port"] = client_port
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args=head | {"include_dashboard": False, "object_store_memory": STORE_BYTES} | _own_ports(),
        )
        for name in names:
            self.add(name)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def home(self, name: str) -> str:
        return str(self._folder / name)

    def add(self, name: str, variables: Mapping[str, str] | None = None) -> None:
        home = Path(self.home(name))
        home.mkdir(exist_ok=True)
        own = {"TARE_PLUGINS": "planted_naps", "TARE_LOCK": str(home / "lock"), "OMP_NUM_THREADS": "1"}
        environment = planted_environment(home) | own | dict(variables or {})
        own = {key: value for key, value in environment.items() if os.environ.get(key) != value}
        self._nodes[name] = self._cluster.add_node(
            num_cpus=2,
            node_name=name,
            env_vars=own,
            object_store_memory=STORE_BYTES,
            wait=False,
            **_own_ports(),
        )

    def kill(self, name: str) -> None:
        """Kills the node's processes at once, as a machine that loses its power; and what it measured, which on
        this machine would otherwise end a moment later."""
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)

    def raylet(self, name: str) -> int:
        return int(self._nodes[name].all_processes["raylet"][0].process.pid)

    def cut_off(self, name: str) -> list[int]:
        """Stops what speaks for the node, as if its network were cut: what it measures goes on. The processes, for
        `reconnect`."""
        raylet = psutil.Process(self.raylet(name))
        speaking = [raylet, *(child for child in raylet.children() if "ray::" in " ".join(child.cmdline()))]
        for process in speaking:
            process.suspend()
        return [process.pid for process in speaking]

    def reconnect(self, name: str, speaking: list[int]) -> None:
        """Lets them speak again: Ray ends a node that it has given up."""
        for pid in speaking:
            os.kill(pid, signal.SIGCONT)
        del self._nodes[name]

    def driver_environment(self, home: Path) -> dict[str, str]:
        return planted_environment(home) | {"TARE_PLUGINS": "planted_naps", "RAY_ADDRESS": self.address}

    def close(self) -> None:
        self._cluster.shutdown()


def _own_ports() -> dict[str, int]:
    """Ports for the helpers of a node: it would wait only for some seconds until they have chosen theirs."""
    helpers = (
        "metrics_agent_port",
        "dashboard_agent_listen_port",
        "metrics_export_port",
        "runtime_env_agent_port",
    )
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in helpers]
        for each in sockets:
            each.bind(("", 0))
        return dict(zip(helpers, (each.getsockname()[1] for each in sockets), strict=True))


def _wait_longer_for_nodes() -> None:
    """Ray gives a node half a minute to start, which is not enough on a machine that others use."""
    from ray._private import services

    get_node = services.get_node

    def get_node_patiently(*arguments: Any) -> Any:
        end = time.monotonic() + 240
        while True:
            try:
                return get_node(*arguments)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    services.get_node = get_node_patiently
