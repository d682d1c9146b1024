"""Drops clients that begin a request and do not go on: uvicorn waits for the head of a request for ever."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds in which the head of a request has to come. A body has a limit of its own (tare.site.limits).
HEAD_S = 15.0


class ImpatientProtocol(H11Protocol):
    """Uvicorn's protocol with a time limit for the head of each request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_head()
        else:
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """From the first byte on: more bytes of the same head do not give more time."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self.transport.close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
