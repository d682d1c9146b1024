"""The zoo: one small file a family. Import `registry` to find them; nothing heavy is imported until built."""

from tare.workloads.base import Batch, Size, Workload
from tare.workloads.kinds import Classifier, DenseClassifier, LanguageModel, Regressor, Translator
from tare.workloads.registry import all_workloads, get_workload, workload

__all__ = [
    "Batch",
    "Classifier",
    "DenseClassifier",
    "LanguageModel",
    "Regressor",
    "Size",
    "Translator",
    "Workload",
    "all_workloads",
    "get_workload",
    "workload",
]
