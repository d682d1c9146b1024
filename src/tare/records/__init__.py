"""The result of a case as a typed, versioned document."""

from tare.records.record import Failure, Record, Round, Series

__all__ = ["Failure", "Record", "Round", "Series"]
