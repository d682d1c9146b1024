"""Hand-made traces of servers of language models and of loops that generate text, with known answers."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from traces import TraceBuilder

Names = Callable[[int, int, int], str]
SERVE, WAIT = "server.py(7): serve", "<built-in method acquire of _thread.lock object at 0x7f>"


class Scheduled(NamedTuple):
    """An iteration that the host begins at `at` (us): prompts of so many tokens in all are read for `prefills`
    sequences, and the next token is made for `decodes`."""

    at: float
    prefills: int = 0
    read: int = 0
    decodes: int = 0

    @property
    def tokens(self) -> int:
        return self.read + self.decodes


# The device computes for 100 us and 1 us for each token, from 20 us after the host begins.
BUSY, LATENCY = 100, 20
PLAN = (
    Scheduled(0, prefills=2, read=30),
    Scheduled(170, decodes=2),
    Scheduled(300, prefills=1, read=18, decodes=2),
    Scheduled(450, decodes=3),
    # 2 ms later come three requests; those before have ended.
    Scheduled(2600, prefills=3, read=9),
    Scheduled(2740, decodes=3),
    Scheduled(2870, decodes=3),
    Scheduled(3000, prefills=1, read=5),
    Scheduled(3130, decodes=4),
)


def vllm(prefills: int, read: int, decodes: int) -> str:
    return f"execute_context_{prefills}({read})_generation_{decodes}({decodes})"


def detailed_vllm(prefills: int, read: int, decodes: int) -> str:
    return f"execute_context_{prefills}(sq{read}sk9sqsq9)_generation_{decodes}(sq{decodes}sk99sqsq1)"


def old_vllm(prefills: int, _: int, decodes: int) -> str:
    return f"execute_new_{prefills}_cached_{decodes}"


def sglang(prefills: int, read: int, decodes: int) -> str:
    if not prefills:
        return f"step[DECODE bs={decodes}]"
    return f"step[{'MIXED' if decodes else 'EXTEND'} bs={prefills + decodes} toks={read + decodes}]"


def tensorrt(prefills: int, read: int, decodes: int) -> str:
    return f"[Executor] _forward_step 12: {prefills} ctx reqs, {read} ctx tokens, {decodes} gen reqs"


def plain(_: int, _read: int, decodes: int) -> str:
    return "decode_step" if decodes else "model.prefill"


def served(
    names: Names, plan: Sequence[Scheduled] = PLAN, stacks: bool = True, sampling: bool = True
) -> TraceBuilder:
    """A server that waits from 575 to 2590 us in PLAN. After the first iteration it samples for 10 us, beyond the
    range that it marks."""
    trace = TraceBuilder()
    if stacks:
        trace.frame(SERVE, -10, plan[-1].at + 400)
        if plan is PLAN:
            trace.frame(WAIT, 575, 2590)
    for one in plan:
        trace.annotation(names(one.prefills, one.read, one.decodes), one.at, one.at + 60)
        busy = one.at + LATENCY
        trace.launch(one.at + 10, one.at + 15, busy, busy + BUSY + one.tokens)
    if sampling:
        first = plan[0]
        end = first.at + LATENCY + BUSY + first.tokens
        trace.launch(first.at + 65, first.at + 70, end, end + 10, kernel="sample")
    return trace


PERIOD, PREPARED = 77, 7


def generating(
    batch: int = 2, prompt: int = 6, tokens: int = 5, by_hand: bool = False, shapes: bool = True, heads: int = 4
) -> TraceBuilder:
    """A loop that makes `tokens` tokens, the first of them in the prefill. Every 77 us it concatenates, embeds,
    attends, multiplies and chooses; the device is done 68 us after the embedding begins."""
    trace = TraceBuilder()
    for i in range(tokens):
        at = PREPARED + PERIOD * i
        queries, keys = (1, prompt + i) if i else (prompt, prompt)
        if i:
            trace.op("aten::cat", at - PREPARED, at - 2)
        trace.op("aten::embedding", at, at + 5, **_dims([100, 8], [batch, queries]) if shapes else {})
        # Of the positions.
        trace.op("aten::embedding", at + 6, at + 10, **_dims([50, 8], [1, queries]) if shapes else {})
        if by_hand:
            flat = batch * heads
            name, attended = "aten::bmm", ([flat, queries, 8], [flat, 8, keys])
        else:
            name, attended = (
                "aten::scaled_dot_product_attention",
                ([batch, heads, queries, 8], [batch, heads, keys, 8]),
            )
        trace.op(name, at + 12, at + 30, **_dims(*attended) if shapes else {})
        trace.launch(at + 14, at + 18, at + 20, at + 40)
        trace.op("aten::mm", at + 32, at + 50, **_dims([batch, 8], [8, 100]) if shapes else {})
        trace.launch(at + 34, at + 38, at + 60, at + 68)
        trace.op("aten::argmax", at + 52, at + 60)
    return trace


def _dims(*shapes: list[int]) -> dict[str, Any]:
    return {"Input Dims": list(shapes), "Input type": ["float"] * len(shapes)}
