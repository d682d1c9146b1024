"""Parity's two kinds of error: correct programs that it calls different, and faults that it calls the same.

    python -m benchmarks.parity [--json results/parity/cpu.json]
    python -m benchmarks.parity --device cuda --jobs 12 --seconds 180 --json results/parity/h200.json

Random networks (tests/support/random_networks.py), and those that were once called different by mistake, are
judged in every precision, mode and variant of eager that rounds otherwise; some of them on other rungs too. First,
every fault of tests/support/planted_faults.py is planted into eager. One process judges many cases, so that
thousands take minutes. The exit code is 1 if a correct program is called different, or a fault the same that is
larger than twice its tolerance.
"""

import argparse
import contextlib
import json
import platform
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from planted_faults import FAULTS, WORKLOADS
from random_networks import named_workloads, random_workload
from verdicts import Judge, case_of, judging

from tare.measure.parity import NOISE, TOLERANCE, compare, errors, load_reference
from tare.report.formats.markdown import table as markdown_table
from tare.rungs.torch.numerics import reference_numerics
from tare.workloads.base import Workload

PRECISIONS: dict[str, tuple[str, ...]] = {"cpu": ("fp32", "bf16", "fp16", "amp-bf16", "amp-fp16")}
PRECISIONS["cuda"] = ("fp32", "tf32", *PRECISIONS["cpu"][1:])
MODES = ("infer", "train")
# Every so many networks are judged on a rung as well, because it takes longer to prepare.
RUNGS = {"cpu": {"torchscript": 5}, "cuda": {"torchscript": 10, "cudagraph": 10, "compile": 100}}
# A fault counts as larger than rounding if, computed in float64, it is off by this many times the tolerance.
EXCEEDS = 2.0


def variants(judge: Judge, device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Correct programs of one case."""
    yield "eager", judge.eager
    if getattr(judge.workload.definition, "family", "image") == "image":
        yield "eager, channels-last", lambda: judge.eager(layout="channels-last")
    if device == "cpu":
        yield "eager, without oneDNN", lambda: within(torch.backends.mkldnn.flags(enabled=False), judge.eager)
    else:
        searching = torch.backends.cudnn.flags(
            enabled=True, benchmark=True, allow_tf32=judge.case.precision == "tf32"
        )
        yield "eager, cuDNN searching", lambda: within(searching, judge.eager)
        yield "eager, without cuDNN", lambda: within(torch.backends.cudnn.flags(enabled=False), judge.eager)
    seed = getattr(judge.workload.definition, "seed", None)
    for rung, every in RUNGS[device].items():
        if seed is not None and seed % every == 0:
            yield rung, lambda rung=rung: judge.rung(rung)  # type: ignore[misc]


def within(context: Any, evidence: Callable[[], Any]) -> Any:
    with context:
        return evidence()


def judge_networks(workloads: Iterator[Workload], device: str, deadline: float) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    problems, judged = [], 0
    for workload in workloads:
        if time.monotonic() > deadline:
            break
        for mode in MODES:
            for precision in PRECISIONS[device]:
                for variant, status, parity in _judge_case(workload, mode, precision, device):
                    counts[f"{mode} {precision} {variant}"][status] += 1
                    if status in ("different", "nan"):
                        problems.append(f"{workload.name} {mode} {precision} {variant}: {parity}")
                        print("  wrong:", problems[-1], flush=True)
        judged += 1
        if judged % 10 == 0:
            print(f"  {judged} networks, {len(problems)} called different", flush=True)
    return {
        "networks": judged,
        "verdicts": {where: dict(verdicts) for where, verdicts in sorted(counts.items())},
        "called different": problems,
    }


def _judge_case(workload: Workload, mode: str, precision: str, device: str) -> Iterator[tuple[str, str, Any]]:
    try:
        with judging(workload, case_of(workload, mode, precision, device)) as judge:
            for variant, evidence in variants(judge, device):
                try:
                    parity = judge.judge(evidence)
                    yield variant, parity.status, (parity.worst, parity.error, parity.tolerance, parity.reason)
                except (RuntimeError, NotImplementedError) as error:
                    yield variant, "cannot run", str(error)[:100]
    except (RuntimeError, NotImplementedError) as error:
        # For example, oneDNN has no LSTM in fp16.
        yield "eager", "cannot run", str(error)[:100]


def judge_faults(device: str, precisions: tuple[str, ...], names: list[str] | None = None) -> dict[str, Any]:
    """For each fault the verdict in every mode and precision, and whether it is larger than rounding there."""
    table: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for precision in precisions:
        for mode in MODES:
            for workload in WORKLOADS.values():
                faults = [f for f in FAULTS.values() if f.workload == workload.name and mode in f.modes]
                # For example, oneDNN has no LSTM in fp16.
                with (
                    contextlib.suppress(RuntimeError),
                    judging(workload, case_of(workload, mode, precision, device)) as judge,
                ):
                    for fault in faults:
                        if names is None or fault.name in names:
                            table[fault.name][f"{mode} {precision}"] = _judge_fault(judge, fault.spoil, precision)
    return dict(table)


def _judge_fault(judge: Judge, spoil: Any, precision: str) -> dict[str, Any]:
    parity = judge.judge(lambda: judge.eager(spoil))
    reference = load_reference(judge.folder)
    assert reference is not None
    exact = judge.exact(reference_numerics(precision), spoil)
    own = reference.eager_errors
    off = errors(reference.arrays, exact)
    # The tolerance of each tensor, as a comparison of it alone gives it.
    ratios = {
        name: off[name] / (compare({name: values}, {name: values}, precision, own, "").tolerance or 1.0)
        for name, values in reference.arrays.items()
        if own.get(name, 0.0) <= NOISE and values.any()
    }
    worst = max(ratios, key=lambda name: ratios[name])
    return {
        "verdict": parity.status,
        "exceeds rounding": ratios[worst] > EXCEEDS,
        "effect": min(off[worst], 1e300),
        "tensor": worst,
        "eager": own.get(worst, 0.0),
    }


def missed(table: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {where}"
        for name, verdicts in table.items()
        for where, row in verdicts.items()
        if row["exceeds rounding"] and row["verdict"] not in ("different", "nan")
    ]


def markdown(document: dict[str, Any]) -> str:
    """The catalogue as a table: caught, or smaller than rounding there."""
    faults = document["faults"]
    columns = sorted({where for verdicts in faults.values() for where in verdicts})
    marks = {"different": "caught", "nan": "caught (NaN)"}
    lines = []
    for name, verdicts in faults.items():
        cells = [name]
        for where in columns:
            row = verdicts.get(where)
            caught = marks.get(row["verdict"]) if row else "-"
            cells.append(caught or ("MISSED" if row["exceeds rounding"] else "within rounding"))
        lines.append(cells)
    heads = ["fault", *columns]
    return markdown_table(heads, lines, words=heads)


class Part(NamedTuple):
    """What one process judges: the networks of some seeds, and with `named` those that were once called different;
    or the faults in one precision."""

    device: str
    deadline: float
    large: bool = False
    seeds: tuple[int, ...] = ()
    named: bool = False
    precision: str = ""


def run_part(part: Part) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    if part.precision:
        return judge_faults(part.device, (part.precision,))
    return judge_networks(_workloads(part), part.device, part.deadline)


def _workloads(part: Part) -> Iterator[Workload]:
    yield from (random_workload(seed, part.large) for seed in part.seeds)
    if part.named:
        yield from named_workloads(large=part.device == "cuda")


def run_parts(parts: list[Part], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from map(run_part, parts)
        return
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        yield from pool.map(run_part, parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument(
        "--first", type=int, default=0, help="the seed of the first network; no faults but from 0 on"
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="start no more networks after this long")
    parser.add_argument("--jobs", type=int, default=1, help="processes, which share the device")
    parser.add_argument("--large", action="store_true", help="wider and deeper networks")
    parser.add_argument(
        "--json", type=Path, help="writes the figures here, and the table of faults beside it (.md)"
    )
    options = parser.parse_args()
    began = time.monotonic()
    common = (options.device, began + options.seconds, options.large)
    faults: dict[str, dict[str, Any]] = defaultdict(dict)
    if options.first == 0:
        print("planted faults", flush=True)
        for table in run_parts([Part(*common, precision=p) for p in PRECISIONS[options.device]], options.jobs):
            for name, rows in table.items():
                faults[name] |= rows
    gaps = missed(faults)
    print(f"  {len(faults)} faults, missed: {gaps or 'none'}; {time.monotonic() - began:.0f} s", flush=True)
    seeds = range(options.first, options.first + options.networks)
    # A few portions for each process, so that all end together. The named networks are large, so they come first.
    count = 4 * options.jobs if options.jobs > 1 else 1
    parts = [Part(*common, seeds=tuple(seeds[at::count])) for at in range(count)]
    if options.first == 0:
        parts.insert(0 if options.jobs > 1 else 1, Part(*common, named=True))
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    problems, networks = list[str](), 0
    for judged in run_parts(parts, options.jobs):
        networks += judged["networks"]
        problems += judged["called different"]
        for where, counts in judged["verdicts"].items():
            verdicts[where].update(counts)
    document = {
        "device": torch.cuda.get_device_name() if options.device == "cuda" else platform.machine(),
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - began),
        "tolerance": TOLERANCE,
        "networks": networks,
        "called different": problems,
        "verdicts": {where: dict(counts) for where, counts in sorted(verdicts.items())},
        "missed": gaps,
        "faults": faults,
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=1))
        if faults:
            options.json.with_suffix(".md").write_text(markdown(document))
    total: Counter[str] = sum(verdicts.values(), Counter())
    print(f"{networks} networks: {dict(total)}; called different: {len(problems)}; faults missed: {len(gaps)}")
    return 1 if gaps or problems else 0


if __name__ == "__main__":
    sys.exit(main())
