"""Beside others a worker keeps to one core, and before it is measured it has all of them again."""

import subprocess
import sys

import pytest
import torch

from tare.worker.preparation import one_core


def test_one_core_while_wanted_and_all_of_them_after() -> None:
    before = torch.get_num_threads()
    with one_core(wanted=True):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_who_is_alone_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set once more, the same number is not the same: MKL stops choosing for itself."""
    said: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", said.append)
    with one_core(wanted=False):
        pass
    assert said == []


@pytest.mark.full
@pytest.mark.parametrize("imported", ["", "import torch._inductor.config;"])
def test_a_compiler_has_no_more_processes_than_it_may(imported: str) -> None:
    program = (
        f"{imported}from tare.worker.preparation import limit_compilers; limit_compilers(3);"
        "import torch._inductor.config as config; print(config.compile_threads)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "3", done.stderr
