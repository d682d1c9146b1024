"""The worker process: takes one job, sends messages, ends. The fork server forks it, or it runs as a program."""

import os
import pkgutil
import sys
import traceback

from tare.errors import TareError, Unsupported, first_line, message_of
from tare.protocol import jobs
from tare.protocol.messages import DESCRIPTOR, Channel, Done, Failed, Send, Stage
from tare.records.record import Cause, Failure
from tare.system.text import encodable
from tare.workloads.randomness import without_dropout

# What a worker does for each kind of job: a function of the job and of `send`, which sends a message. What it
# returns is sent as well. A worker imports only what its job needs.
HANDLERS = {
    jobs.RoundJob: "tare.worker.round:measure_round",
    jobs.CommandJob: "tare.worker.command:measure_command",
    jobs.ReferenceJob: "tare.worker.reference:run_reference_job",
    jobs.StageJob: "tare.worker.staging:stage",
    jobs.CheckJob: "tare.worker.reference:check_evidence",
    jobs.CurveJob: "tare.worker.staging:train_curve",
    jobs.TrainJob: "tare.worker.training:train_epochs",
    jobs.EvaluateJob: "tare.worker.training:evaluate_checkpoint",
    jobs.InitialWeightsJob: "tare.worker.training:write_initial_weights",
    jobs.ShapesJob: "tare.worker.training:describe_shapes",
    jobs.FramesJob: "tare.worker.call_stack:count_frames",
    jobs.ProbeJob: "tare.worker.machine:probe",
    jobs.ProfileJob: "tare.worker.profiling:profile",
    jobs.PeakJob: "tare.worker.machine:measure_peak",
    jobs.RegistryJob: "tare.worker.coverage:registries",
    jobs.CoverJob: "tare.worker.coverage:cover",
    jobs.InspectJob: "tare.worker.inspection:inspect",
    jobs.DescribeJob: "tare.worker.description:describe_model",
}
# Texts by which an exception shows that memory ran out.
DEVICE_MEMORY = ("CUDA out of memory", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
                 "cudaErrorMemoryAllocation", "MPS backend out of memory")  # fmt: skip
HOST_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc", "Cannot allocate memory")


def run_job(job: jobs.Job, send: Send) -> int:
    """Does the job and returns the exit code; whatever goes wrong is sent as a failure with its cause."""
    try:
        send(Stage("start"))
        with without_dropout(not getattr(job, "dropout", True)):
            answer = pkgutil.resolve_name(HANDLERS[type(job)])(job, send)
        if answer is not None:
            send(answer)
        if isinstance(answer, Failed):
            return 1
        send(Done())
        return 0
    except BaseException as error:  # noqa: BLE001 - recorded as a failure, also a SystemExit with a text
        send(Failed(classify(error)))
        return 1


def classify(error: BaseException) -> Failure:
    """An exception as a failure with its cause. Our own errors need no class name in front of their text."""
    name = type(error).__name__
    whole, text = message_of(error), first_line(error)
    cause: Cause = "exception"
    if isinstance(error, Unsupported):
        cause = "unsupported"
    elif name == "OutOfMemoryError" or any(sign in whole for sign in DEVICE_MEMORY):
        cause = "device-oom"
    elif isinstance(error, MemoryError) or any(sign in whole for sign in HOST_MEMORY):
        cause = "host-oom"
    elif isinstance(error, ModuleNotFoundError):
        cause = "not-installed"
    message = text if text and isinstance(error, TareError) else f"{name}: {text}" if text else name
    detail = "" if cause == "unsupported" else "".join(traceback.format_exception(error))
    return Failure(cause=cause, message=encodable(message), exception=name, detail=encodable(detail))


def main() -> int:
    """The job comes on standard input; messages go to the descriptor in TARE_FD."""
    channel = Channel(int(os.environ.pop(DESCRIPTOR)))
    try:
        return run_job(jobs.read_job(sys.stdin.buffer.read()), channel.send)
    except BaseException:  # noqa: BLE001 - printed to the log that the parent keeps
        # Nobody hears what this process says. Threads of libraries must not keep it alive.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


if __name__ == "__main__":
    sys.exit(main())
