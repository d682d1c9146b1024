"""Random networks lower and agree with float64, forward and backward. What does not lower says why."""

from collections import Counter
from pathlib import Path

import pytest
from random_networks import NOT_LOWERED, random_workload
from small_step import prove_workload

from tare.cases.case import Mode
from tare.errors import Unsupported
from tare.rungs.native.build import executable

# Networks without dropout, whose numbers no two rungs would draw alike.
PER_TEST, TESTS = 10, 6


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, PER_TEST * TESTS, PER_TEST))
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_random_networks_agree(mode: Mode, first: int, tmp_path: Path) -> None:
    program = executable("tare-vendor-cpu")
    verdicts: Counter[str] = Counter()
    for seed in range(first, first + PER_TEST):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            parity = prove_workload(random_workload(seed, dropout=False), mode, "contiguous", folder, program)
        except Unsupported as refusal:
            verdict = "refused" if NOT_LOWERED.search(str(refusal)) else str(refusal)
        else:
            verdict = parity.status
        assert verdict in ("same", "refused"), (seed, verdict)
        verdicts[verdict] += 1
    assert verdicts["same"] >= PER_TEST // 2, verdicts
