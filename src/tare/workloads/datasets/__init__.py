"""Datasets in, arrays out: real data that ships with an installed package. Nothing is ever downloaded."""

from tare.workloads.datasets.batches import Shapes, make_batches
from tare.workloads.datasets.registry import DATASETS, SIZES, load

__all__ = ["DATASETS", "SIZES", "Shapes", "load", "make_batches"]
