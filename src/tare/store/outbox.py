"""Writes that wait for a server that does not answer, in their order."""

import time
from collections.abc import Callable

from tare.store.database import StoreFailed

# The server is asked again after so many seconds, then after twice as many, up to the second.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0


class Outbox:
    """A write may reach a server whose answer is lost, and is then repeated: writes must allow that."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._next_try, self._wait_s = 0.0, FIRST_WAIT_S
        # Why the last attempt failed.
        self.reason = ""

    def __len__(self) -> int:
        return len(self._waiting)

    def write(self, *writes: Callable[[], None]) -> bool:
        """Whether everything is written. If not, the server is away, and will be asked at a later call.
        StoreFailed for any other reason: then what failed is dropped."""
        self._waiting += writes
        if self.reason and time.monotonic() < self._next_try:
            return not self._waiting
        while self._waiting:
            try:
                self._waiting[0]()
            except StoreFailed as error:
                if not error.is_away:
                    del self._waiting[0]
                    raise
                self.reason = str(error)
                self._next_try = time.monotonic() + self._wait_s
                self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
                return False
            del self._waiting[0]
        self.reason, self._wait_s = "", FIRST_WAIT_S
        return True

    def wait(self, longest_s: float) -> bool:
        """As `write`, waiting for the server for as long as is given."""
        end = time.monotonic() + longest_s
        while not self.write():
            remaining = end - time.monotonic()
            if remaining <= 0:
                return False
            time.sleep(min(max(self._next_try - time.monotonic(), 0.0), remaining))
        return True
