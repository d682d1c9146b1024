"""The program of a node: measures what the driver orders, with the executor and the runner of `tare run`.

It reads orders on standard input and writes messages on standard output. At the end of its input it ends, with
everything that it has started: then its driver, or the cluster's process that holds the other end, is gone.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import BinaryIO

import msgspec
import psutil

import tare
from tare.cases.case import Case
from tare.cases.options import DEFAULT_ISOLATION
from tare.cases.source import ModelSource
from tare.errors import TareError, brief
from tare.execute.catalogue import LocalCatalogue
from tare.execute.environments import find_interpreter
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.fleet.messages import (
    Consider,
    Considered,
    Doing,
    LadderDone,
    MeasureLadder,
    MeasureRound,
    NodeLost,
    NodeMessage,
    OpenVersion,
    Order,
    RecordDone,
    RenewServers,
    RoundDone,
    RoundMeasured,
    RoundStarted,
    SendMessage,
    Survey,
    Surveyed,
    VersionOpened,
    encode_line,
    read_order,
)
from tare.execute.own_models import register_models
from tare.execute.parallel import measure_cases
from tare.execute.preload import FIELDS, preload, preload_of_cases
from tare.execute.runner import FirstFailure, Journal, Target
from tare.execute.session import open_executor, renew_launchers
from tare.measure.health import examine
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.records.record import Record, Round
from tare.system.processes import interruptible
from tare.system.variables import remember_secrets
from tare.workloads import all_workloads, get_workload
from tare.workloads.own.registry import own_names

OpenExecutor = Callable[..., AbstractContextManager[LocalExecutor]]


class Node:
    """Answers orders, one after the other."""

    def __init__(self, send: SendMessage, open_executor: OpenExecutor = open_executor) -> None:
        self._send, self._open_executor = send, open_executor
        # That of the driver's version first; a check may open another.
        self._executors: list[LocalExecutor] = []
        self._isolation: str = DEFAULT_ISOLATION
        self._probed: Probed | None = None
        self._faults: dict[str, str] = {}
        self._stack = contextlib.ExitStack()

    def close(self) -> None:
        self._stack.close()

    def obey(self, order: Order) -> None:
        try:
            match order:
                case Survey():
                    self._survey(order)
                case Consider():
                    self._consider(order)
                case MeasureLadder():
                    self._measure(order)
                case OpenVersion():
                    self._open_version(order)
                case RenewServers():
                    renew_launchers(self._executors, preload_of_cases(order.cases))
                case MeasureRound():
                    self._measure_round(order)
        except TareError as error:
            self._send(NodeLost(reason=str(error)))

    def _survey(self, order: Survey) -> None:
        if order.tare != tare.__version__:
            raise TareError(f"it has tare {tare.__version__}, and here it is {order.tare}")
        self._faults = _register(order.models, self._say, order.timeout)
        self._isolation = order.isolation
        executor = self._stack.enter_context(self._open_executor(order.isolation, self._say, _preload(order.axes)))
        self._executors = [executor]
        probed = executor.probe()
        environment = _with_node(probed.environment, order.node)
        self._probed = msgspec.structs.replace(probed, environment=environment)
        self._send(Surveyed(probed=self._probed, checks=examine(probed.gpus), faults=self._faults))

    def _consider(self, order: Consider) -> None:
        assert self._probed is not None, "a node is surveyed first"
        catalogue = LocalCatalogue(self._probed, build=order.build)
        refusals = {}
        for case in order.cases:
            if refusal := self._refusal(case, order.memory, catalogue):
                refusals[case.key] = refusal
        self._send(Considered(refusals=refusals))

    def _refusal(self, case: Case, memory: int | None, catalogue: LocalCatalogue) -> tuple[str, str] | None:
        if fault := self._faults.get(case.workload):
            return "not-installed", fault
        if case.workload not in (*all_workloads(), *own_names()):
            return "not-installed", f"there is no workload {case.workload}: install its plug-in there"
        digest = get_workload(case.workload).digest
        if digest != case.source:
            return "not-installed", f"{case.workload} has other code there ({digest}, not {case.source})"
        total = psutil.virtual_memory().total
        if memory is not None and memory > total:
            sizes = f"{memory >> 20} MiB of host memory, and there are {total >> 20}"
            return "unsupported", f"a worker of this plan may use {sizes}"
        return catalogue.refusal(case)

    def _measure(self, order: MeasureLadder) -> None:
        assert self._probed is not None, "a node is surveyed first"
        journal = SendingJournal(order, self._name, self._send)
        target = Target(
            self._executors[0], self._probed.environment, journal, fail_fast=order.fail_fast,
            projects=order.projects, tags=order.tags,
        )  # fmt: skip
        failed_fast = False
        try:
            measure_cases(order.cases, order.options, target, journal)
        except FirstFailure:
            failed_fast = True
        self._send(LadderDone(number=order.number, failed_fast=failed_fast))

    def _open_version(self, order: OpenVersion) -> None:
        remember_secrets(order.variables)
        try:
            python = find_interpreter(order.python, "--baseline-python") if order.python else sys.executable
            executor = self._stack.enter_context(
                self._open_executor(self._isolation, self._say, (), python, order.variables)
            )
            environment = executor.probe("the baseline's version").environment
        except (TareError, OSError) as error:
            self._send(VersionOpened(fault=brief(error)))
            return
        self._executors = [self._executors[0], executor]
        self._send(VersionOpened(environment=_with_node(environment, self._name)))

    def _measure_round(self, order: MeasureRound) -> None:
        executor = self._executors[order.version]
        round_ = executor.run_round(order.case, order.index, order.options, order.check)
        self._send(RoundMeasured(round=msgspec.structs.replace(round_, node=self._name)))

    @property
    def _name(self) -> str:
        assert self._probed is not None, "a node is surveyed first"
        return self._probed.environment.circumstances["node"]

    def _say(self, stage: str) -> None:
        self._send(Doing(text=stage[:500]))


def _with_node(environment: Environment, name: str) -> Environment:
    return msgspec.structs.replace(environment, circumstances={**environment.circumstances, "node": name})


class SendingJournal:
    """The journal of a ladder, and its listener: what comes in goes to the driver, which stores it."""

    def __init__(self, order: MeasureLadder, node: str, send: SendMessage) -> None:
        self.run = order.run
        self._number, self._node, self._send = order.number, node, send
        self._rounds = {key: list(rounds) for key, rounds in order.rounds.items()}
        self._records: dict[str, Record] = {}

    def rounds(self, case: Case) -> list[Round]:
        return list(self._rounds.get(case.key, []))

    def record(self, case: Case) -> Record | None:
        return self._records.get(case.key)

    def add_round(self, case: Case, round_: Round, /) -> None:
        measured = self._named(round_)
        self._rounds.setdefault(case.key, []).append(measured)
        self._send(RoundDone(number=self._number, case=case, round=measured))

    def add_record(self, record: Record) -> None:
        measured = msgspec.structs.replace(record, rounds=[self._named(round_) for round_ in record.rounds])
        self._records[record.case.key] = measured
        self._send(RecordDone(number=self._number, record=measured))

    def round_started(self, case: Case, index: int) -> None:
        self._send(RoundStarted(case=case, index=index))

    def stage_changed(self, stage: str) -> None:
        self._send(Doing(text=stage[:500]))

    def planned(self, rounds: Mapping[Case, int], journals: Sequence[Journal]) -> None: ...
    def round_finished(self, case: Case, round_: Round) -> None: ...
    def record_finished(self, record: Record) -> None: ...

    def _named(self, round_: Round) -> Round:
        return msgspec.structs.replace(round_, node=self._node)


def _register(models: Sequence[ModelSource], on_stage: OnStage, timeout: float) -> dict[str, str]:
    """Why some of the users' models cannot be used here. Their files must be on this machine too."""
    faults = {}
    for source in models:
        try:
            register_models([source], on_stage, timeout)
        except TareError as error:
            faults[source.name] = str(error)
    return faults


def _preload(axes: Mapping[str, list[str]]) -> tuple[str, ...]:
    known = {*all_workloads(), *own_names()}
    workloads, *others = (axes.get(field, []) for field in FIELDS)
    return preload([name for name in workloads if name in known], *others)


@contextlib.contextmanager
def _private_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Standard input and output for the driver alone: libraries print there, and children inherit them."""
    with os.fdopen(os.dup(0), "rb") as orders, os.fdopen(os.dup(1), "wb") as messages:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        yield orders, messages


def main() -> None:
    with _private_streams() as (orders, messages), interruptible():
        pending: SimpleQueue[Order] = SimpleQueue()
        turn = threading.Lock()

        def send(message: NodeMessage) -> None:
            with turn:
                messages.write(encode_line(message) + b"\n")
                messages.flush()

        def listen() -> None:
            for line in orders:
                try:
                    pending.put(read_order(line))
                except msgspec.DecodeError as error:
                    send(NodeLost(reason=f"its tare {tare.__version__} cannot read an order: {brief(error)}"))
            # Nobody is there any more: the main thread ends its measurement.
            os.kill(os.getpid(), signal.SIGTERM)

        node = Node(send)
        threading.Thread(target=listen, daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError), contextlib.closing(node):
            while True:
                node.obey(pending.get())


if __name__ == "__main__":
    main()
