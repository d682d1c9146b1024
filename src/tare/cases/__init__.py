"""What is to be measured: cases, and the plans that make grids of them."""

from tare.cases.case import Case

__all__ = ["Case"]
