"""Every inefficiency on the GPU: its rule fires, does not fire on the fixed version, and its saving is right
within a factor of two.

FINDINGS_RECORD=FILE writes estimated and measured savings there (results/findings); run all of them in one process
for that (no -n).
"""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from inefficiencies import INEFFICIENCIES, Inefficiency
from record_inefficiencies import averages, gross_ns, profiled
from torch_table import assert_same_table

from tare.execute.executor import LocalExecutor
from tare.execute.peaks import measure_peaks
from tare.findings.context import Context
from tare.findings.finding import Finding, all_rules, find
from tare.trace.read import read

pytestmark = pytest.mark.alone
# Rules without a saving.
WITHOUT_SAVING = {"memory-growth"}
# A trace of the slow version shows only a part of the saving: a lower bound that may be far from it.
SHOWN_IN_PART = {"channels-first"}
# What is left depends on where the remedy makes the tensor.
BOUNDED_ABOVE = {"host-made-tensors"}


class Recorded:
    """An inefficiency and its fixed version: gross of both, and a trace of each."""

    def __init__(self, name: str, program: Inefficiency, folder: Path, rates: Mapping[str, float]) -> None:
        self.name, self.program = name, program
        self.steps = program.make("cuda")
        self.gross_s = [taken / 1e9 for taken in gross_ns(self.steps)]
        self.contexts, self.averages = [], []
        for label, step, gross in zip(("inefficient", "fixed"), self.steps, self.gross_s, strict=True):
            recording = profiled(step, program.steps, program.stack)
            path = folder / f"{label}.json"
            recording.export_chrome_trace(str(path))
            self.contexts.append(Context(read(path), gross, rates))
            self.averages.append(averages(recording))

    @property
    def saved_s(self) -> float:
        """What the fix saves."""
        return self.gross_s[0] - self.gross_s[1]

    def found(self, which: int) -> Finding | None:
        rule = all_rules()[self.program.rule]
        before = self.contexts[1 - which] if rule.pair else None
        return next(iter(find(self.contexts[which], before, [rule])), None)


@pytest.fixture(scope="module")
def rates(executor: LocalExecutor) -> dict[str, float]:
    """The device's peaks, which `tare explain` measures before it computes savings."""
    found = measure_peaks(executor, "cuda", executor.probe().environment, rounds=1)
    return {peak.name: peak.value for peak in found.peaks}


@pytest.fixture(scope="module", params=list(INEFFICIENCIES))
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, rates: dict[str, float]
) -> Iterator[Recorded]:
    import torch

    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    flags = products.allow_tf32, cudnn.allow_tf32, cudnn.enabled
    yield Recorded(request.param, INEFFICIENCIES[request.param], tmp_path_factory.mktemp("traces"), rates)
    products.allow_tf32, cudnn.allow_tf32, cudnn.enabled = flags
    torch.cuda.empty_cache()


def test_the_rule_fires_on_the_inefficient_version_only(recorded: Recorded) -> None:
    assert recorded.found(0) is not None
    assert recorded.found(1) is None


def test_the_saving_is_within_a_factor_of_two(recorded: Recorded) -> None:
    found = recorded.found(0)
    assert found is not None
    saved = recorded.saved_s
    if recorded.program.rule in WITHOUT_SAVING:
        assert found.saving_s is None
        return
    assert found.saving_s is not None
    # With measured peaks no saving is an upper bound. A lower bound holds (except for the noise of two
    # measurements), and is near, except for rules that see only a part.
    assert found.bound != "at most" or recorded.program.rule in BOUNDED_ABOVE
    assert found.saving_s < (1.1 if found.bound == "at least" else 2) * saved, (found.saving_s, saved)
    if recorded.program.rule in SHOWN_IN_PART:
        assert found.bound == "at least"
    else:
        assert saved / 2 < found.saving_s, (found.saving_s, saved)


def test_the_table_of_operators_is_that_of_key_averages(recorded: Recorded) -> None:
    nested = recorded.program.rule != "recompilation"
    assert_same_table(recorded.contexts[0].trace, recorded.averages[0], nested)


def as_document(recorded: Recorded) -> dict[str, Any]:
    """An entry of the record: what the rule says of both versions, and what the fix saved."""
    found, fixed = recorded.found(0), recorded.found(1)
    return {
        "inefficiency": recorded.name,
        "rule": recorded.program.rule,
        "seen": found is not None,
        "fixed_seen": fixed is not None,
        "saving_s": found.saving_s if found else None,
        "bound": found.bound if found else "",
        "measured_s": recorded.saved_s,
        "gross_s": recorded.gross_s[0],
        "fixed_gross_s": recorded.gross_s[1],
    }


@pytest.fixture(scope="module")
def record() -> Iterator[list[dict[str, Any]]]:
    """The entries of all inefficiencies, written at the end if FINDINGS_RECORD is set."""
    import torch

    entries: list[dict[str, Any]] = []
    yield entries
    if path := os.environ.get("FINDINGS_RECORD"):
        machine = {"gpu": torch.cuda.get_device_name(), "torch": str(torch.__version__)}
        document: dict[str, Any] = {"machine": machine, "at": datetime.now(UTC).date().isoformat()}
        document |= {
            "from": "FINDINGS_RECORD=FILE pytest tests/gpu/test_findings_on_cuda.py",
            "inefficiencies": entries,
        }
        Path(path).write_text(json.dumps(document, indent=1) + "\n")


def test_the_record_holds_estimated_and_measured_savings(recorded: Recorded, record: list[dict[str, Any]]) -> None:
    entry = as_document(recorded)
    record.append(entry)
    print(json.dumps(entry))
    assert (entry["seen"], entry["fixed_seen"]) == (True, False)
    assert (entry["saving_s"] is None) == (entry["rule"] in WITHOUT_SAVING)
    # A fix saves time, except that of a leak.
    assert entry["measured_s"] > 0 or entry["rule"] in WITHOUT_SAVING
