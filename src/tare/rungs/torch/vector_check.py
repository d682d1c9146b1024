"""A note about a cost of Inductor: on x86-64 every process that generates or loads C++ tests the compiler with
each kind of vector instructions that the processor has, and starts a Python that imports torch to load the
result. Cached programs do not avoid it. docs/measurement.md has figures."""

from typing import Any

NOTE = (
    "its preparation asks the C++ compiler in every process which vector instructions it knows, for seconds; "
    "TORCHINDUCTOR_VEC_ISA_OK=1 leaves most of that out"
)


def note_vector_checks(notes: list[str]) -> None:
    """Adds the note if and when this process makes the test; not where the variable of the note is set, or where
    this version of torch tests in another way."""
    from torch._inductor import config, cpu_vec_isa

    kind = cpu_vec_isa.VecISA
    asks = getattr(kind, "check_build", None)
    if asks is None or getattr(config.cpp, "vec_isa_ok", None) is not None:
        return

    def noted(self: Any, *args: Any) -> Any:
        if NOTE not in notes:
            notes.append(NOTE)
        return asks(self, *args)

    kind.check_build = noted
