"""Results of other benchmark tools, read as what they are: points of a named series, not cases of ours."""

from tare.store.importers.point import ForeignPoint, Imported

__all__ = ["ForeignPoint", "Imported"]
