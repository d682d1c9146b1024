"""TensorFlow: the zoo's simplest networks as Keras models: as a graph, op by op, compiled by XLA, and with the
three implementations that Keras has of an LSTM."""

import os
from collections.abc import Sequence
from importlib.util import find_spec

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.frameworks.program import BY_NAME
from tare.rungs.registry import rung, split_name
from tare.system.home import home
from tare.workloads.base import Workload

# Those of tare.rungs.frameworks.tensorflow.networks, named here so that a plan can be checked without importing
# TensorFlow.
WORKLOADS = ("lstm", "mlp", "mnist_cnn", "resnet50")
# What Keras calls `implementation` of an LSTM; None is its own choice, cuDNN's kernel where there is a GPU.
MODES = {"mode0": None, "mode1": 1, "mode2": 2}


@rung
class TensorFlow(Rung):
    name = "tensorflow"
    summary = "TensorFlow: a Keras model, run as a graph (tf.function)"
    variants = {
        "eager": "each operation dispatched by itself",
        "xla": "the graph compiled by XLA",
        "mode0": "LSTM: the library's fused kernel where there is one (cuDNN)",
        "mode1": "LSTM: a product for each gate (Keras' implementation 1)",
        "mode2": "LSTM: the gates in one product (Keras' implementation 2)",
    }
    not_by_default = dict.fromkeys(("", *variants), BY_NAME)
    distribution = "tensorflow"

    def available(self, device_type: str) -> Missing | None:
        if find_spec("tensorflow") is None or find_spec("keras") is None:
            return Missing("TensorFlow is not installed", "tare env create tensorflow")
        if device_type == "cuda" and find_spec("nvidia.cudnn") is None:
            return Missing("this TensorFlow has no CUDA libraries", "pip install 'tensorflow[and-cuda]'")
        return None

    def supports(self, case: Case, workload: Workload) -> str | None:
        variant = split_name(case.rung)[1]
        if workload.name not in WORKLOADS:
            return f"it is written for {', '.join(WORKLOADS)}"
        if variant in MODES and workload.name != "lstm":
            return f"{variant} is an implementation of the LSTM"
        if case.device_type not in ("cpu", "cuda"):
            return "it runs on the CPU and on CUDA devices"
        if case.mode == "train" and case.precision == "amp-fp16":
            return "it has no loss scaling: use amp-bf16"
        if case.optimizer not in (None, "sgd"):
            return "Keras' Adam adds epsilon before it corrects the bias, torch's after: only SGD is the same"
        if case.feed != "device":
            return "it keeps its batch on the device: only --feed device"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:
        variant = split_name(case.rung)[1]
        if variant == "eager":
            return ()
        return ("operators fused by XLA",) if variant == "xla" else ("graph optimised by Grappler",)

    def prepare(self, workload: Workload, case: Case) -> Program:
        prepare_process(case)
        from tare.rungs.frameworks.tensorflow.program import TensorFlowProgram

        return TensorFlowProgram(workload, case)


def prepare_process(case: Case) -> None:
    """Sets what TensorFlow and Keras read when they are imported. They must not reserve all of a GPU's memory, and
    the user's configuration of Keras must not change what is computed."""
    os.environ |= {
        "KERAS_BACKEND": "tensorflow",
        "KERAS_HOME": str(home() / "keras"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    if case.device_type == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    if case.threads:
        tf.config.threading.set_intra_op_parallelism_threads(case.threads)
        tf.config.threading.set_inter_op_parallelism_threads(case.threads)
    tf.config.experimental.enable_tensor_float_32_execution(case.precision == "tf32")
