"""A file of another tool: which one wrote it is seen from what it holds. Data only; refused in one line."""

import msgspec

from tare.errors import BadInput, brief
from tare.foreign import google_benchmark, pyperf, pytest_benchmark
from tare.foreign.point import Imported

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def decode_foreign(data: bytes, where: str) -> Imported:
    try:
        # The keys by which the formats differ.
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
        if "machine_info" in keys:
            document = msgspec.json.decode(data, type=pytest_benchmark.Document)
            found = pytest_benchmark.read(document, where)
        elif "context" in keys:
            found = google_benchmark.read(msgspec.json.decode(data, type=google_benchmark.Document), where)
        elif "benchmarks" in keys and "version" in keys:
            found = pyperf.read(msgspec.json.decode(data, type=pyperf.Document), where)
        else:
            raise BadInput(
                f"{where} is of no known format (known: pyperf, pytest-benchmark, google-benchmark, tare JSON)"
            )
    except UNREADABLE as error:
        raise BadInput(
            f"{where} is not the JSON of pyperf, pytest-benchmark or google-benchmark: {brief(error)}"
        ) from None
    if not found.points:
        raise BadInput(f"{where} ({found.source}) holds no benchmark with a figure")
    return found
