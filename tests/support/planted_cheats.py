"""Rungs that do not do their work in the steps that are timed, and workloads that change flags or do nothing.
TARE_PLUGINS loads them into workers and into every command."""

import hashlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Batch, Workload
from tare.workloads.registry import workload

Step = Callable[[], Any]


def _memoise(program: Any) -> Step:
    """One result for good."""
    right = program.step
    kept: list[Any] = []

    def step() -> Any:
        if not kept:
            kept.append(right())
        return kept[0]

    return step


def _memoise_by_content(program: Any) -> Step:
    """Results by what the input contains. The work takes far longer than the comparison of the input."""
    right = program.step
    kept: list[Any] = []

    def step() -> Any:
        (values,) = program.held.args
        if not kept or not values.equal(kept[0]):
            time.sleep(0.003)
            kept[:] = [values.clone(), right()]
        return kept[1]

    return step


def _know_by_content(program: Any) -> Step:
    """A result for every batch that it has seen, kept for good."""
    right = program.step
    kept: dict[float, Any] = {}

    def step() -> Any:
        (values,) = program.held.args
        key = float(values.view(-1)[0])
        if key not in kept:
            time.sleep(0.003)
            kept[key] = right().clone()
        return kept[key]

    return step


def _skip(program: Any) -> Step:
    """Nothing on every second step."""
    right, counter, kept = program.step, itertools.count(), [program.step()]

    def step() -> Any:
        if next(counter) % 2:
            kept[0] = right()
        return kept[0]

    return step


def _bake(program: Any) -> Step:
    """The first batch as a constant of the program."""
    args = tuple(value.clone() for value in program.held.args)
    return lambda: program.forward(*args)


def _leave_in_thread(program: Any) -> Step:
    """The right result, and work in a thread that nobody waits for."""
    from concurrent.futures import ThreadPoolExecutor

    pool, free, right = ThreadPoolExecutor(1), threading.Semaphore(2000), program.step
    data = bytes(1 << 20)

    def work() -> None:
        # A millisecond or so, more than the step takes. Python's lock is free meanwhile: otherwise the steps would
        # wait for it until the work is done.
        hashlib.sha256(data).digest()
        free.release()

    def step() -> Any:
        free.acquire()
        pool.submit(work)
        return right()

    return step


def _be_honest_when_asked(program: Any) -> Step:
    """Nothing in timed steps, and the right evidence where it is asked for."""
    import torch

    right = program.step
    result = torch.zeros_like(right())
    program.evidence = lambda: {f"output/0@{batch}": right().numpy() for batch in range(3)}
    return lambda: result


def _look_up_by_place(program: Any) -> Step:
    """Results by where the largest number of the input is, which scaling does not change."""
    right = program.step
    kept: dict[int, Any] = {}

    def step() -> Any:
        key = int(program.held.args[0].argmax())
        if key not in kept:
            time.sleep(0.003)
            kept[key] = right().clone()
        return kept[key]

    return step


def _compute_when_read(program: Any) -> Step:
    """A tensor whose values are computed by whatever reads it, every time."""
    import torch
    from torch.utils import _pytree as pytree

    forward, right = program.forward, program.step()

    class Lazy(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def compute(leaf: Any) -> Any:
                if not isinstance(leaf, Lazy):
                    return leaf
                time.sleep(0.002)
                with torch._C.DisableTorchFunctionSubclass():
                    return forward(*program.held.args)

            return func(*pytree.tree_map(compute, args), **pytree.tree_map(compute, kwargs or {}))

    return lambda: right.detach().as_subclass(Lazy)


def _train_three_steps(program: Any) -> Step:
    """Nothing in all steps after the third from the initial weights."""
    right, rewind = program.step, program.rewind
    kept: list[Any] = []

    def step() -> Any:
        if len(kept) < 3:
            time.sleep(0.003)
            kept.append(right())
        return kept[-1]

    def start_again() -> None:
        rewind()
        kept.clear()

    program.rewind = start_again
    return step


CHEATS = {
    "memo": _memoise,
    "content": _memoise_by_content,
    "known": _know_by_content,
    "skip": _skip,
    "baked": _bake,
    "thread": _leave_in_thread,
    "empty": _be_honest_when_asked,
    "place": _look_up_by_place,
    "lazy": _compute_when_read,
    "three": _train_three_steps,
}


@rung
class Cheat(Rung):
    name = "cheat"
    summary = "eager, but not in every step"
    variants = dict.fromkeys(CHEATS, "planted")
    not_by_default = dict.fromkeys(("", *CHEATS), "planted")

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.torch.program import TorchProgram

        program = TorchProgram(workload, case)
        program.step = CHEATS[case.rung.partition(":")[2]](program)
        return program


def _change_tf32() -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True


def _change_dtype() -> None:
    import torch

    torch.set_default_dtype(torch.float64)


def _change_threads() -> None:
    import torch

    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


def _borrow_tf32() -> None:
    """On while the layer works, and off again before the step ends."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = False


def _plant(name: str, change: Callable[[], None]) -> None:
    @workload(f"planted_{name}", domain="other", task="fault", source="tests", batch=4)
    class Changing:
        def build(self) -> Any:
            from planted_modules import FaultyLayer

            def forward(_: int, y: Any) -> Any:
                change()
                return y

            return FaultyLayer(forward)

        def inputs(self, batch: int) -> Batch:
            import torch

            return Batch((torch.randn(batch, 16),))


_CHANGES = {
    "tf32": _change_tf32,
    "borrowed_tf32": _borrow_tf32,
    "dtype": _change_dtype,
    "threads": _change_threads,
}
for _name, _change in _CHANGES.items():
    _plant(_name, _change)


@workload("planted_identity", domain="other", task="fault", source="tests", batch=4)
class Identity:
    def build(self) -> Any:
        import torch

        return torch.nn.Identity()

    def inputs(self, batch: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, 16),))


@workload("planted_zeros", domain="other", task="fault", source="tests", batch=4)
class Zeros:
    """A batch of zeros hides every weight of the network."""

    def build(self) -> Any:
        import torch

        return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))

    def inputs(self, batch: int) -> Batch:
        import torch

        return Batch((torch.zeros(batch, 16),))


@rung
class WrongWeights(Rung):
    name = "wrong_weights"
    summary = "eager with a first layer of twice the weights"
    not_by_default = {"": "planted"}

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.torch.program import TorchProgram

        program = TorchProgram(workload, case)
        program.model[0].weight *= 2
        return program
