"""Who compiles is told what else his compiler does. The compiler's answer is planted: asking takes seconds."""

import platform

import pytest
from torch._inductor import config, cpu_vec_isa

from tare.cases.case import Case
from tare.rungs import get_rung
from tare.rungs.torch.compile import NOTE, note_vector_checks
from tare.workloads import get_workload


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the compiler is asked about from now on, though somebody asked before."""
    found: list[str] = []

    def answer(self: cpu_vec_isa.VecISA, code: str) -> bool:  # noqa: ARG001
        found.append(str(self))
        return True

    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", answer)
    cpu_vec_isa.VecISA._VecISA__bool__impl.cache_clear()
    return found


def test_it_is_noted_once_and_answered_as_before(asked: list[str]) -> None:
    notes = ["something else"]
    with config.patch({"cpp.vec_isa_ok": None}):
        note_vector_checks(notes)
    assert notes == ["something else"]
    assert cpu_vec_isa.VecAVX2().check_build("code") is True
    assert cpu_vec_isa.VecAVX512().check_build("code") is True
    assert notes == ["something else", NOTE]
    assert len(asked) == 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="Inductor asks on x86-64 alone")
@pytest.mark.usefixtures("asked")
def test_a_compiled_program_has_the_note_and_one_that_is_told_not_to_ask_has_none() -> None:
    for told, expected in ((None, [NOTE]), (True, [])):
        mlp = get_workload("mlp")
        case = Case(workload="mlp", rung="compile", batch=4, sizes=mlp.smoke_sizes)
        cpu_vec_isa.valid_vec_isa_list.cache_clear()
        with config.patch({"cpp.vec_isa_ok": told}):
            program = get_rung("compile").prepare(mlp, case)
            cpu_vec_isa.pick_vec_isa()
        assert program.notes == expected
        program.close()


def test_another_torch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cpu_vec_isa.VecISA, "check_build")
    notes: list[str] = []
    note_vector_checks(notes)
    assert notes == []
    assert not hasattr(cpu_vec_isa.VecISA, "check_build")
