"""Which operator of a step on the CPU took longer, by two profiles of it."""

from traces import TraceBuilder

from tare.findings.scene import Scene
from tare.guard_diff import grown


def made(**lengths: float) -> Scene:
    """A step of 1 ms on the host in which operators last so many µs; each calls another one inside."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    at = 0.0
    for name, length in lengths.items():
        trace.op(f"planted::{name}", at, at + length)
        trace.op("aten::inner", at + 1, at + length - 1)
        at += length + 1
    return Scene(trace.build())


def test_the_operator_that_took_most_of_it_is_named_with_all_that_it_calls() -> None:
    (one,) = grown(made(work=400, steady=400), made(work=470, steady=405))
    assert (one.name, one.status, one.before_calls, one.after_calls) == ("planted::work", "slower", 1, 1)
    assert (one.before_s, one.after_s) == (400e-6, 470e-6)


def test_what_grew_little_or_came_anew_is_not_named() -> None:
    assert grown(made(work=400, steady=400), made(work=415, steady=405)) == []
    assert grown(made(work=400), made(work=400, more=300)) == []
