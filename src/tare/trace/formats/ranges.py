"""NVTX and ROCTX ranges: operators of PyTorch, steps, and regions that a program marked.

Under torch.autograd.profiler.emit_nvtx every operator is a range, whose text also has its sequence number and the
shapes of its inputs: 'aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]]' (torch/csrc/profiler/util.cpp).
"""

import re

import msgspec

from tare.trace.events import ABSENT, Event, EventArgs, Tag, span

_DETAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")
_SEQUENCE, _SIZES = re.compile(r", seq = (\d{1,18})"), re.compile(r", sizes = (\[[\d\s,\[\]]*\])")
# What programs call their steps: 'step 12', 'iteration_3', 'train step #5', 'ProfilerStep#2'.
_STEP = re.compile(
    r"(?:train(?:ing)?|global|infer(?:ence)?|eval)?[\s_-]*(?:step|iteration|iter|batch|ProfilerStep)"
    r"[\s_#:=-]*(\d{1,18})",
    re.I,
)


def range_event(text: str, thread: tuple[Tag, Tag], start: int, end: int) -> Event:
    if step := marked_step(text):
        return span("user_annotation", step, thread, start, end)
    detail = _DETAIL.search(text)
    name, details = (text[: detail.start()], text[detail.start() :]) if detail else (text, "")
    sequence = _SEQUENCE.search(details)
    # Nodes of autograd's graph have a sequence number. A range of the user's own has neither.
    if sequence is None and "::" not in name:
        return span("user_annotation", name, thread, start, end)
    args = EventArgs(sequence=int(sequence[1]) if sequence else -1, dims=_shapes(details))
    return span("cpu_op", name, thread, start, end, args)


def marked_step(text: str) -> str:
    """The name of the step that a program marked so; empty for any other text."""
    match = _STEP.fullmatch(text)
    return step_name(int(match[1])) if match else ""


def step_name(number: int) -> str:
    """The name by which the tables know a step."""
    return f"ProfilerStep#{number}"


def _shapes(details: str) -> msgspec.Raw:
    sizes = _SIZES.search(details)
    try:
        msgspec.json.decode(sizes[1]) if sizes else None
    except msgspec.DecodeError:
        return ABSENT
    return msgspec.Raw(sizes[1].encode()) if sizes else ABSENT
