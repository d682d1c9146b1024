"""The zoo: one small file per family. Heavy packages are imported only when a workload is built."""

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
