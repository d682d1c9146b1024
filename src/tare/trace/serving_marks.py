"""What a server of language models writes into its traces: a range for each iteration, whose name says what its
batch is made of.

vLLM: execute_context_1(512)_generation_7(7), with more figures in the brackets in some builds, and
execute_new_1_cached_7 before that; SGLang: step[DECODE bs=8], step[EXTEND bs=1 toks=512]; TensorRT-LLM: [Executor]
_forward_step 9: 1 ctx reqs, 512 ctx tokens, 7 gen reqs. Many programs mark just `prefill` and `decode`.
"""

import re
from typing import Final, Literal, NamedTuple

IterationKind = Literal["prefill", "decode", "mixed", "unknown"]
PREFILL: Final = "prefill"
DECODE: Final = "decode"
MIXED: Final = "mixed"
UNKNOWN: Final = "unknown"
# The ranges of programs that are no known server.
PLAIN = "ranges named prefill and decode"

_VLLM = re.compile(r"execute_(?:\w+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)[^)]*\)")
_OLD_VLLM = re.compile(r"execute_new_(\d+)_cached_(\d+)")
_SGLANG = re.compile(r"step\[(\w+) bs=(\d+)(?: toks=(\d+))?[^\]]*\]")
_TENSORRT = re.compile(r"\[Executor\] _forward_step\b[^:]*: (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs")
_PLAIN = re.compile(r"(?<![a-z])(prefill|decod)(?:e|ing)?(?![a-z])", re.I)
# SGLang's forward modes.
_MODES: dict[str, IterationKind] = {
    "EXTEND": PREFILL,
    "DECODE": DECODE,
    "TARGET_VERIFY": DECODE,
    "MIXED": MIXED,
}


class ServedBatch(NamedTuple):
    """What an iteration computes: of how many sequences it reads the prompt, for how many it makes the next token,
    and of how many tokens the batch is in all. None is not known."""

    kind: IterationKind
    prefills: int | None = None
    decodes: int | None = None
    tokens: int | None = None

    @property
    def sequences(self) -> int | None:
        return None if self.prefills is None or self.decodes is None else self.prefills + self.decodes


def read_mark(name: str) -> tuple[str, ServedBatch] | None:
    """Who writes ranges of this name, and the batch; None for any other range, and for one of an empty batch."""
    found: tuple[str, ServedBatch] | None = None
    if match := _VLLM.fullmatch(name):
        prefills, read, decodes, made = map(_count, match.groups())
        found = "vLLM", batch_of(prefills, decodes, read + made)
    elif match := _OLD_VLLM.fullmatch(name):
        found = "vLLM", batch_of(_count(match[1]), _count(match[2]), None)
    elif match := _TENSORRT.match(name):
        prefills, decodes = _count(match[1]), _count(match[3])
        read_tokens = _count(match[2]) if match[2] else None if prefills else 0
        found = (
            "TensorRT-LLM",
            batch_of(prefills, decodes, None if read_tokens is None else read_tokens + decodes),
        )
    elif match := _SGLANG.fullmatch(name):
        found = _sglang(match[1], _count(match[2]), _count(match[3]) if match[3] else None)
    elif len(kinds := {part.lower() for part in _PLAIN.findall(name)}) == 1:
        return PLAIN, ServedBatch(PREFILL if kinds == {"prefill"} else DECODE)
    return found if found and found[1].sequences != 0 else None


def batch_of(prefills: int, decodes: int, tokens: int | None) -> ServedBatch:
    kind: IterationKind = MIXED if prefills and decodes else PREFILL if prefills else DECODE
    return ServedBatch(kind, prefills, decodes, tokens)


def _sglang(mode: str, sequences: int, tokens: int | None) -> tuple[str, ServedBatch] | None:
    kind = _MODES.get(mode)
    if kind is None or not sequences:
        return None
    if kind == MIXED:
        return "SGLang", ServedBatch(MIXED, tokens=tokens)
    if kind == PREFILL:
        return "SGLang", ServedBatch(PREFILL, sequences, 0, tokens)
    # A verification computes several drafted tokens for each sequence.
    return "SGLang", ServedBatch(DECODE, 0, sequences, tokens or (sequences if mode == "DECODE" else None))


def _count(digits: str) -> int:
    """Anybody may have written the name."""
    return int(digits[:12])
