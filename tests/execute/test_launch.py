"""Workers from the fork server and from a fresh interpreter: the same protocol, the same exits."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.execute.call_stacks import count_frames
from tare.execute.executor import LocalExecutor
from tare.execute.launch import ForkLauncher, SpawnLauncher, make_launcher
from tare.execute.session import renew_launchers
from tare.execute.supervise import Supervision, supervise
from tare.protocol.jobs import ProbeJob
from tare.protocol.messages import Done, Prepared
from tare.rungs.native.rung import NativeRung
from tare.workloads.base import Workload

CASE = Case(
    workload="mlp", rung="eager", batch=4, sizes={"width": 16, "depth": 1, "features": 8, "classes": 3}, threads=1
)


MEASURED = (
    '{"kind":"measured","series":{"kind":"pipelined","steps":[1],"wall_ns":[5],"at_ns":[0],"stop":"budget"}}'
)
FAILED = '{"kind":"failed","failure":{"cause":"boredom","message":"x"}}'


@pytest.fixture(scope="module", autouse=True)
def _cores() -> Iterator[None]:
    """All cores, as for a user: a share of them would hide threads that libraries start on their own."""
    with pytest.MonkeyPatch.context() as patch:
        for library in ("OMP", "OPENBLAS"):
            patch.delenv(f"{library}_NUM_THREADS", raising=False)
        yield


@pytest.fixture(scope="module")
def fork() -> Iterator[ForkLauncher]:
    launcher = ForkLauncher()
    yield launcher
    launcher.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("isolation", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_a_round_in_a_fresh_process(isolation: str, home: Path) -> None:
    executor = LocalExecutor(make_launcher(isolation), home / "scratch")
    try:
        rounds = [executor.run_round(CASE, i, Options(rounds=2, budget=0.4), check=i == 0) for i in range(2)]
    finally:
        executor.close()
    for round_ in rounds:
        assert round_.failure is None
        assert round_.isolation == isolation
        assert [series.kind for series in round_.series] == ["warmup", "pipelined", "latency"]
        assert round_.flags["threads"] == "1"
        assert round_.host_memory is not None
        assert round_.device_memory is None, "on a CPU the device's figures are absent, not zero"
        assert round_.prepare_s is not None
    assert rounds[0].parity is not None
    assert rounds[0].parity.status == "same"
    assert rounds[1].parity is None


def test_the_server_has_torch_and_one_thread_and_has_touched_no_device(fork: ForkLauncher) -> None:
    worker_exit = supervise(fork.launch(ProbeJob()), Supervision(120))
    assert isinstance(worker_exit.messages[-1], Done)
    assert fork._server is not None
    server = Path(f"/proc/{fork._server.pid}")
    if not server.exists():
        pytest.skip("no /proc on this system")
    maps = (server / "maps").read_text()
    assert "libtorch_cpu" in maps
    assert "libcuda.so" not in maps
    threads = [(one / "comm").read_text().strip() for one in (server / "task").iterdir()]
    # OpenBLAS has threads of its own and handles a fork; nothing else may run in the server.
    assert len(threads) <= 1 + (os.cpu_count() or 1)


DRIVER = """
static int awake = 0;
int cuInit(unsigned flags) { awake = 1; return 0; }
int cuDeviceGetCount(int *count) { return awake ? 0 : 3; }
"""
# One loads the driver without using it; one initialises it; one comes after.
MODULES = {
    "loads_it": "import ctypes; driver = ctypes.CDLL({library!r})",
    "initialises_it": "import loads_it; loads_it.driver.cuInit(0)",
    "comes_after": "",
}


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="plants a driver, for Linux")
def test_a_module_that_initialises_the_gpu_driver_is_left_to_the_workers(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    (tmp_path / "driver.c").write_text(DRIVER)
    build = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(tmp_path / "driver.c")]
    subprocess.run(build, check=True)
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text.format(library=str(library)))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with contextlib.closing(ForkLauncher(tuple(MODULES), variables={"PYTHONPATH": path})) as launcher:
        worker_exit = supervise(launcher.launch(ProbeJob()), Supervision(120))
        assert isinstance(worker_exit.messages[-1], Done)
        assert launcher._server is not None
        command = Path(f"/proc/{launcher._server.pid}/cmdline").read_text().split("\0")
    assert command[command.index("--preload") + 1] == "loads_it,comes_after"


@pytest.mark.full
def test_a_server_that_dies_while_it_starts_a_worker_is_replaced() -> None:
    with contextlib.closing(ForkLauncher()) as launcher:
        supervise(launcher.launch(ProbeJob()), Supervision(120))
        first = launcher._server
        assert first is not None
        # Stopped, it cannot answer the request, and is killed then.
        first.send_signal(signal.SIGSTOP)
        killer = threading.Timer(0.5, first.kill)
        killer.start()
        worker_exit = supervise(launcher.launch(ProbeJob()), Supervision(120))
        killer.join()
        assert isinstance(worker_exit.messages[-1], Done)
        assert launcher._server is not None
        assert launcher._server.pid != first.pid


def test_every_job_has_its_own_process(fork: ForkLauncher) -> None:
    pids = [supervise(fork.launch(ProbeJob()), Supervision(120)).pid for _ in range(3)]
    assert len({*pids, os.getpid()}) == 4


def test_a_program_that_speaks_no_protocol_has_no_result(home: Path) -> None:
    executor = LocalExecutor(SpawnLauncher(("true",)), home / "scratch")
    round_ = executor.run_round(CASE, 0, Options(budget=0.2), check=False)
    assert round_.failure is not None
    assert round_.failure.cause == "no-result"


def test_a_line_that_is_no_message_is_quoted(home: Path) -> None:
    output = b'hello\n{"kind":"done"}\n{"kind":"nonsense"}\n'
    talk = (sys.executable, "-c", f"import os; os.write(int(os.environ['TARE_FD']), {output!r})")
    executor = LocalExecutor(SpawnLauncher(talk), home / "scratch")
    round_ = executor.run_round(CASE, 0, Options(budget=0.2), check=False)
    assert round_.failure is not None
    assert round_.failure.cause == "exception"
    assert "hello" in round_.failure.message


@pytest.mark.parametrize(
    ("what", "line", "cause", "named"),
    [
        ("a negative time", MEASURED.replace("[5]", "[-5]"), "exception", "wall_ns"),
        ("lists of two lengths", MEASURED.replace("[5]", "[5, 5]"), "exception", "differ in length"),
        ("an unknown cause", FAILED, "exception", "boredom"),
    ],
)
def test_an_invalid_message_is_quoted(home: Path, what: str, line: str, cause: str, named: str) -> None:
    output = f'{line}\n{{"kind":"done"}}\n'.lstrip("\n").encode()
    talk = (sys.executable, "-c", f"import os; os.write(int(os.environ['TARE_FD']), {output!r})")
    round_ = LocalExecutor(SpawnLauncher(talk), home / "scratch").run_round(
        CASE, 0, Options(budget=0.2), check=False
    )
    assert round_.failure is not None, what
    assert (round_.failure.cause, named in round_.failure.message) == (cause, True), round_.failure


class MissingProgram(NativeRung):
    """A rung whose program was removed, or is no program."""

    name = "missing"

    def __init__(self, program: Path) -> None:
        self._path = program

    def command(self, case: Case, on_build: Callable[[], None]) -> tuple[str, ...]:  # noqa: ARG002
        return (str(self._path),)

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        """Nothing is staged."""


@pytest.mark.parametrize("content", [None, b"no program"])
def test_an_executable_that_cannot_be_started_is_not_installed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(0o755)
    executor = LocalExecutor(SpawnLauncher(), home / "scratch")
    monkeypatch.setattr("tare.execute.executor.get_rung", lambda _: MissingProgram(program))
    executor._made[executor._stage_job(CASE)] = Prepared(build_s=0, prepare_s=0, cache="none")
    before = psutil.Process().num_fds()
    round_ = executor.run_round(CASE, 0, Options(budget=0.2), check=False)
    assert round_.failure is not None
    assert (round_.failure.cause, str(program) in round_.failure.message) == ("not-installed", True)
    assert psutil.Process().num_fds() == before


def test_a_program_killed_by_a_signal(home: Path) -> None:
    executor = LocalExecutor(SpawnLauncher(("sh", "-c", "kill -SEGV $$")), home / "scratch")
    round_ = executor.run_round(CASE, 0, Options(budget=0.2), check=False)
    assert round_.failure is not None
    assert (round_.failure.cause, round_.failure.message) == ("signal", f"ended by {signal.SIGSEGV.name}")


def test_the_children_of_a_worker_end_with_it(home: Path, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = ("sh", "-c", f"sleep 3600 & echo $! > {note}; exit 0")
    executor = LocalExecutor(SpawnLauncher(command), home / "scratch")
    executor.run_round(CASE, 0, Options(budget=0.2), check=False)
    child = int(note.read_text())
    # The signal is sent before the round is returned, but may take effect a moment later.
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(child).wait(10) is None or not psutil.pid_exists(child)


@pytest.mark.full
def test_executors_get_new_servers_together(home: Path) -> None:
    launchers = [ForkLauncher(("no_such_module",)) for _ in range(2)]
    executors = [LocalExecutor(launcher, home / "scratch") for launcher in launchers]
    with contextlib.ExitStack() as stack:
        for executor in executors:
            stack.callback(executor.close)
        renew_launchers(executors, ())
        old = [launcher._server for launcher in launchers]
        renew_launchers(executors, ("json", "colorsys"))
        new = [launcher._server for launcher in launchers]
        assert [server is not None and server.poll() is None for server in (*old, *new)] == [
            False,
            False,
            True,
            True,
        ]
        for executor, launcher, server in zip(executors, launchers, new, strict=True):
            assert executor.run_round(CASE, 0, Options(budget=0.2), check=False).failure is None
            assert launcher._server is server, "the renewed server is the one that serves"
            assert server is not None
            assert list(server.args)[-1] == "json,colorsys"  # type: ignore[arg-type]


@pytest.mark.full
def test_what_the_imports_of_the_server_print_goes_to_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noisy.py").write_text("print('from a preload', flush=True)")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    with contextlib.closing(ForkLauncher(("noisy",), variables={"PYTHONPATH": paths})) as launcher:
        launcher.renew()
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "from a preload\n")


def test_a_folder_for_evidence_that_cannot_be_made_is_bad_input(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = home / "scratch"
    scratch.touch()
    monkeypatch.setattr("tare.execute.executor.get_rung", lambda _: MissingProgram(tmp_path / "program"))
    executor = LocalExecutor(SpawnLauncher(("true",)), scratch)
    executor._made[executor._stage_job(CASE)] = Prepared(build_s=0, prepare_s=0, cache="none")
    message = r"^cannot make the folder .*/scratch/.* \(Not a directory\); set TARE_HOME$"
    with pytest.raises(BadInput, match=message):
        executor.run_round(CASE, 0, Options(), check=False)
    with pytest.raises(BadInput, match=message):
        next(count_frames(executor, [CASE], "", Options()))
