"""A cluster of Ray: one actor on each node, which has all of its cores and GPUs, so that no other work of the
cluster runs beside a measurement."""

import contextlib
import logging
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tare.errors import BadInput, TareError, brief
from tare.execute.fleet import relay
from tare.execute.fleet.cluster import Member
from tare.execute.fleet.messages import NodeLost, NodeMessage, Order, encode_line, read_node_message
from tare.system.redaction import redact
from tare.system.text import last_lines

LOCAL, CLIENT = ("ray", "ray:auto"), "ray://"
# Names the cluster that a machine is in, where there are several.
RAY_ADDRESS = "RAY_ADDRESS"
FORMS = "ray://HOST:PORT (the port of Ray's client server, 10001), or ray for a cluster that this machine is in"
ADDRESS = re.compile(r"ray://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
PROGRAM = ("-m", "tare.execute.fleet.node")
# A node answers at least so often, also when it has nothing to say.
ANSWER_S = 5.0
# A node whose cores others use, and one that says nothing any more, is waited for so long.
START_S, SILENT_S = 120.0, 60.0
CONNECT_S = 10.0
# How often a head is asked that could not start a server for us, and what Ray says then.
ATTEMPTS, SERVER_FAILED = 3, "Initialization failure from server"
# How long the nodes may take to end their measurements.
STOP_S = 25.0
# A name that Ray made up is the node's address.
_ADDRESS_AS_NAME = re.compile(r"[0-9.]+|[0-9A-Fa-f:]+")
_UNNAMED = re.compile(r"[^0-9A-Za-z_.:-]")


def check_address(text: str) -> str:
    """The address as Ray wants it; BadInput for anything else. A refused address may hold a password, so it is not
    repeated where it has one."""
    if text in LOCAL:
        return "auto"
    if "@" in text:
        raise BadInput(f"--on takes an address without a user: {FORMS}")
    if not ADDRESS.fullmatch(text):
        raise BadInput(f"--on '{redact(text)[:80]}' is no cluster: want {FORMS}")
    return text


@contextlib.contextmanager
def open_ray(address: str) -> Iterator["RayCluster"]:
    """Connects to a cluster. At the end of the context, what its nodes measure for us has ended."""
    wanted = check_address(address)
    # Read when Ray is imported. Ray's own messages about a lost node would tear the progress apart.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError:
        raise BadInput("--on ray needs Ray: pip install 'tare-bench[fleet]'") from None
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    _require_listener(os.environ.get(RAY_ADDRESS, "") if wanted == "auto" else wanted)
    try:
        _connect(ray, wanted)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        hint = (
            "start one with `ray start --head`, or name it" if wanted == "auto" else "is it up, with Ray's client?"
        )
        raise TareError(f"no cluster at {address}: {brief(error)} ({hint})") from None
    cluster = RayCluster(ray)
    # Ray prints on standard output what it knows of a lost node; that is for our document, and we name the node.
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            yield cluster
        finally:
            with contextlib.suppress(KeyboardInterrupt):
                cluster.close()
            ray.shutdown()


def _connect(ray: Any, address: str, attempts: int = ATTEMPTS) -> None:
    """The head starts a server for every client. On a busy machine that takes too long, or the new process dies in
    gRPC's handling of forks: it is asked again."""
    try:
        ray.init(
            address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=False,
            namespace="tare",
        )  # fmt: skip
    except (ConnectionError, RuntimeError) as error:
        if attempts == 1 or SERVER_FAILED not in str(error):
            raise
        ray.shutdown()
        _connect(ray, address, attempts - 1)


def _require_listener(address: str) -> None:
    """Refuses an address where nobody listens: Ray itself tries for a minute, and prints what it tries."""
    host, colon, port = address.removeprefix(CLIENT).rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise TareError(f"no cluster at {redact(address)}: {brief(error)}") from None


class RayCluster:
    """The Cluster of tare.execute.fleet.cluster on Ray, which is connected."""

    def __init__(self, ray: Any, start_s: float = START_S, silent_s: float = SILENT_S) -> None:
        self._ray, self._start_s, self._silent_s = ray, start_s, silent_s
        self._members: dict[str, Member] = {}
        self._ids: dict[str, str] = {}
        self._actors: dict[str, Any] = {}
        # The answer that each node owes us, and since when it has said nothing.
        self._answers: dict[str, Any] = {}
        self._silent_since: dict[str, float] = {}
        self._has_answered: set[str] = set()
        ray.cloudpickle.register_pickle_by_value(relay)

    def members(self) -> list[Member]:
        nodes = sorted((node for node in self._nodes() if node["Alive"]), key=lambda node: str(node["NodeID"]))
        plain = [_plain_name(node) for node in nodes]
        count = Counter(plain)
        members = []
        for node, name in zip(nodes, plain, strict=True):
            resources = node["Resources"]
            unique = name if count[name] == 1 else f"{name}-{node['NodeID'][:6]}"
            self._ids[unique] = node["NodeID"]
            cores = float(resources.get("CPU", 0))
            unusable = "" if cores else "Ray may run nothing on it (it has no CPU resource)"
            host = str(node.get("NodeManagerHostname", ""))
            members.append(Member(unique, host, cores, float(resources.get("GPU", 0)), unusable))
        self._members |= {member.name: member for member in members}
        return sorted(members)

    def start(self, name: str) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        member = self._members[name]
        # Where the node has gone meanwhile, the answer says so.
        strategy = NodeAffinitySchedulingStrategy(self._ids[name], soft=False)
        relay_class = self._ray.remote(relay.NodeRelay).options(
            num_cpus=member.cores, num_gpus=member.gpus, max_concurrency=4, scheduling_strategy=strategy
        )
        self._actors[name] = relay_class.remote(list(PROGRAM))
        self._has_answered.discard(name)
        self._listen(name)

    def send(self, name: str, order: Order) -> None:
        if name in self._actors:
            self._actors[name].send.remote(encode_line(order).decode())

    def receive(self, wait_s: float) -> Sequence[tuple[str, NodeMessage]]:
        names = {answer: name for name, answer in self._answers.items()}
        ready: list[Any] = []
        if names:
            try:
                self._ray.wait(list(names), num_returns=1, timeout=wait_s)
                # Whatever else is there.
                ready, _ = self._ray.wait(list(names), num_returns=len(names), timeout=0)
            except (ConnectionError, self._ray.exceptions.RayError) as error:
                raise TareError(f"the cluster is gone ({brief(error)}): with --resume, a run continues") from None
        else:
            time.sleep(wait_s)
        heard: list[tuple[str, NodeMessage]] = []
        for answer in ready:
            heard += ((names[answer], message) for message in self._open(names[answer], answer))
        now = time.monotonic()
        for name in self._answers.keys() - {names[answer] for answer in ready}:
            longest = self._silent_s if name in self._has_answered else self._start_s
            if now - self._silent_since[name] > longest:
                heard.append((name, self._lose(name, self._why_silent(name, longest))))
        return heard

    def stop(self, name: str) -> None:
        if actor := self._forget(name):
            self._kill([actor])

    def close(self) -> None:
        actors = [actor for name in list(self._actors) if (actor := self._forget(name))]
        self._kill(actors)

    def _nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self._ray.nodes()
        return nodes

    def _listen(self, name: str) -> None:
        self._answers[name] = self._actors[name].receive.remote(ANSWER_S)
        self._silent_since[name] = time.monotonic()

    def _open(self, name: str, answer: Any) -> list[NodeMessage]:
        try:
            lines, ended = self._ray.get(answer)
        except (self._ray.exceptions.RayError, ConnectionError, OSError) as error:
            alive = self._is_alive(name)
            reason = "Ray lost its process there" if alive else "the node is gone"
            kind = type(error).__name__
            return [self._lose(name, f"{reason} ({kind})", is_gone=not alive)]
        self._has_answered.add(name)
        messages: list[NodeMessage] = []
        for line in lines:
            try:
                messages.append(read_node_message(line))
            except msgspec.DecodeError as error:
                reason = f"it sent what is not a message, as another version of tare may: {brief(error)}"
                return [*messages, self._lose(name, reason)]
        if ended is not None:
            return [*messages, self._lose(name, _why_ended(ended))]
        self._listen(name)
        return messages

    def _is_alive(self, name: str) -> bool:
        return any(node["NodeID"] == self._ids[name] and node["Alive"] for node in self._nodes())

    def _why_silent(self, name: str, longest: float) -> str:
        if name in self._has_answered:
            return f"it has said nothing for {longest:.0f} s"
        return f"its cores did not become free for {longest:.0f} s: other work of the cluster has them"

    def _lose(self, name: str, reason: str, is_gone: bool = False) -> NodeLost:
        if actor := self._forget(name):
            with contextlib.suppress(Exception):  # it may be dead already, in as many ways as Ray has errors
                self._ray.kill(actor)
        return NodeLost(reason=reason, is_gone=is_gone)

    def _forget(self, name: str) -> Any:
        self._answers.pop(name, None)
        self._silent_since.pop(name, None)
        return self._actors.pop(name, None)

    def _kill(self, actors: Sequence[Any]) -> None:
        """Lets the programs end what they measure, and then kills the processes of Ray that hold their input."""
        stopped = [actor.stop.remote() for actor in actors]
        with contextlib.suppress(Exception):  # a node that is gone has ended too
            self._ray.wait(stopped, num_returns=len(stopped), timeout=STOP_S)
        for actor in actors:
            with contextlib.suppress(Exception):  # likewise
                self._ray.kill(actor)


def _plain_name(node: dict[str, Any]) -> str:
    """The name that the node was given, or its host's: Ray names a node after its address unless it is told."""
    name = str(node.get("NodeName", ""))
    host = str(node.get("NodeManagerHostname", ""))
    chosen = host if not name or _ADDRESS_AS_NAME.fullmatch(name) else name
    return _UNNAMED.sub("-", chosen or "node")[:100]


def _why_ended(text: str) -> str:
    head, _, tail = text.partition(": ")
    if "No module named" in tail and "tare" in tail:
        return "it has no tare, or an older one, for the Python that Ray runs with: install the same as here"
    return f"{head}: {last_lines(redact(tail))}" if tail.strip() else head
