"""What one client may ask of a server: the size of a body, how long it may take, and how often."""

import asyncio
import time
import zlib
from collections import OrderedDict

from starlette.exceptions import HTTPException
from starlette.requests import Request

# Bytes of a body as it is sent, and unpacked; seconds until it has come.
LARGEST_BODY, LARGEST_TEXT, BODY_S = 32 << 20, 256 << 20, 60.0
# A form has a few fields.
LARGEST_FORM = 64 << 10
# Requests a second that a client may go on with, and how many it may send at once.
RATE, BURST = 20.0, 200
# Clients that are remembered.
MOST_CLIENTS = 10_000


async def read_body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """The body, unpacked where it is compressed. 413 for one that is too large, 408 for one that does not come."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > largest:
        raise HTTPException(413, f"a body has at most {largest >> 10} KB")
    pieces, count = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                count += len(piece)
                if count > largest:
                    raise HTTPException(413, f"a body has at most {largest >> 10} KB")
                pieces.append(piece)
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_S:.0f} s") from None
    data = b"".join(pieces)
    return unpack(data) if request.headers.get("content-encoding") == "gzip" else data


def unpack(data: bytes) -> bytes:
    decoder = zlib.decompressobj(wbits=31)
    try:
        text = decoder.decompress(data, LARGEST_TEXT + 1)
    except zlib.error as error:
        raise HTTPException(400, f"the body is no gzip: {error}") from None
    if len(text) > LARGEST_TEXT or decoder.unconsumed_tail:
        raise HTTPException(413, f"a body expands to at most {LARGEST_TEXT >> 20} MB")
    if not decoder.eof or decoder.unused_data:
        raise HTTPException(400, "the body is a gzip that is cut off, or has something behind it")
    return text


class RateLimit:
    """A token bucket for each client (Turner, 1986: the leaky bucket as a meter)."""

    def __init__(self, rate: float = RATE, burst: int = BURST) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str, now: float | None = None) -> float:
        """Zero if the request may be served; otherwise how long the client should wait."""
        now = time.monotonic() if now is None else now
        filled, last = self._buckets.pop(client, (float(self._burst), now))
        filled = min(filled + (now - last) * self._rate, self._burst)
        allowed = filled >= 1
        self._buckets[client] = (filled - 1 if allowed else filled, now)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - filled) / self._rate
