"""An explanation with its diagnosis as one document, as a store keeps it beside a record."""

import msgspec

from tare.errors import BadInput, brief
from tare.findings.diagnosis import Diagnosis
from tare.trace.explanation import Explanation

# Of the longest tables the rows that take the most time.
MOST_ROWS = 200


class ExplainedRecord(msgspec.Struct, frozen=True, kw_only=True):
    explanation: Explanation
    diagnosis: Diagnosis

    def encode(self) -> bytes:
        """Without the ends of long tables."""
        tables = {name: getattr(self.diagnosis, name)[:MOST_ROWS] for name in ("operators", "kernels")}
        kept = msgspec.structs.replace(self, diagnosis=msgspec.structs.replace(self.diagnosis, **tables))
        return msgspec.json.encode(kept)


_decoder = msgspec.json.Decoder(ExplainedRecord)


def decode_explained(document: bytes | str, where: str) -> ExplainedRecord:
    try:
        return _decoder.decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"{where} is not an explanation: {brief(error)}") from None
