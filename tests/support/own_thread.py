"""A thread for programs that may fail half-way: inference mode is then left on, and is the thread's."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def own_thread() -> Iterator[ThreadPoolExecutor]:
    """What is left of a program is collected in its own thread, and nothing of another test's meanwhile: the end
    of inference mode sets what the thread that it happens in dispatches to, and would take the tracer away from
    a trace."""
    gc.freeze()
    try:
        with ThreadPoolExecutor(1) as threads:
            yield threads
            threads.submit(gc.collect).result()
    finally:
        gc.unfreeze()
