"""A file of another tool: which one wrote it is seen from what it holds. Data only; refused in one line."""

import json

import msgspec

from tare.errors import BadInput, brief
from tare.store.importers import google_benchmark, pyperf, pytest_benchmark
from tare.store.importers.point import Imported

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def decode_foreign(data: bytes, where: str) -> Imported:
    try:
        data = _as_json(data)
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
        reason = next((f": {name[:60]}, {why}" for name, why in found.left_out.items()), "")
        raise BadInput(f"{where} ({found.source}) holds no benchmark with a figure{reason}")
    return found


def _as_json(data: bytes) -> bytes:
    """Both write NaN and Infinity where a counter has no value, which are Python's and no JSON: they become null.
    A byte order mark goes as well."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
        return data
    except msgspec.DecodeError as error:
        try:
            return msgspec.json.encode(json.loads(data))
        except ValueError:
            raise error from None
