"""tare train: train on real data, rung beside rung, or prove the losses of the first steps."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import (
    JsonOption,
    ResumeOption,
    grid_options,
    make_table,
    option_groups,
    print_json,
    print_result,
    target_argument,
)
from tare.errors import BadInput, Interrupted

# A worker may train for a week; a proof of a few steps takes minutes.
TIMEOUT_S, PROOF_TIMEOUT_S = 604_800.0, 900.0
PROVING = "--prove compares the losses of some steps; leave out"


def complete_data(incomplete: str) -> list[str]:
    from tare.workloads.datasets import DATASETS

    return [name for name in DATASETS if name.startswith(incomplete)]


@option_groups(
    grid=grid_options(
        "default: every one that trains", "device precision batch size layout threads",
        batch="The batch size (default: 64; with --prove 16).",
    )
)  # fmt: skip
def train(
    workload: Annotated[str, target_argument("WORKLOAD")],
    grid: dict[str, Any],
    data: Annotated[
        str,
        typer.Option(help="digits, mnist, fashion-mnist, cifar10, stl10 or voc.", autocompletion=complete_data),
    ] = "digits",
    data_folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where the files of the data are (default: TARE_DATA).")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download the data into that folder first.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, max=10_000, help="Epochs of a run (default 10).")] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each rung, each of its own seed (default 3).")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Of SGD (default: the workload's).", min=1e-12, max=1e6)
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Train with the first N images only.")] = None,
    prove: Annotated[
        int | None,
        typer.Option(metavar="STEPS", min=1, max=10_000, help="Compare the losses of so many steps with float64."),
    ] = None,
    resume: ResumeOption = False,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a worker is killed (default: none; a proof 900).")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write a page with charts.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Train on real data on several rungs, and compare loss and accuracy.

    Every rung starts from the same weights and reads the same batches in the same order. Whether they end with the
    same accuracy is decided by the noise between runs. With --prove, the losses of the first steps are compared
    one by one with those of eager in float64.
    """
    from tare.cases.options import make_options
    from tare.commands.train import EpochPlan, prove_curves, train_rungs
    from tare.report.curves import curves_view
    from tare.report.files import check_writable, write_whole
    from tare.report.overview import skipped_view
    from tare.report.training import training_view
    from tare.report.training_progress import TrainingProgress
    from tare.workloads.datasets import ChosenData

    if output:
        check_writable(output)
    if download:
        from tare.workloads.datasets.download import download_data

        data_folder = download_data(data, data_folder)
    chosen = ChosenData(data, data_folder)
    default_s = TIMEOUT_S if prove is None else PROOF_TIMEOUT_S
    options = make_options({"timeout": default_s if timeout is None else timeout})
    if prove is not None:
        given: dict[str, object] = {"--epochs": epochs, "--runs": runs, "--samples": samples, "--output": output}
        given |= {"--learning-rate": learning_rate, "--resume": resume or None}
        if unused := [name for name, value in given.items() if value is not None]:
            raise BadInput(f"{PROVING} {unused[0]}")
        with TrainingProgress() as progress:
            proof = prove_curves(workload, make_table(grid), chosen, prove, options, progress)
        views = partial(curves_view, proof.curves, data, prove), partial(skipped_view, proof.skipped)
        print_result(as_json, proof, *views)
        if proof.interrupted:
            raise Interrupted("the curves that are complete are shown, the others are missing")
        return proof.exit_code
    length = EpochPlan(epochs or 10, runs or 3, learning_rate, samples)
    with TrainingProgress() as progress:
        training = train_rungs(workload, make_table(grid), chosen, length, options, resume, progress)
    if output:
        from tare.report.training import training_page

        write_whole(output, training_page(training))
    if as_json:
        from tare.report.training import training_document

        print_json(training_document(training))
    else:
        print_result(False, training, partial(training_view, training), partial(skipped_view, training.skipped))
    if training.interrupted:
        raise Interrupted
    return training.exit_code
