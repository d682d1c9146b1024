"""What the profiler says only in names: what a call does, where a copy goes, which step an annotation is."""

import re

from tare.trace.tables import (
    ALLOCATE,
    COPY_CALL,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    GRAPH,
    HOST_TO_DEVICE,
    HOST_TO_HOST,
    LAUNCH,
    MEMSET_CALL,
    OTHER,
    PAGEABLE,
    PEER,
    PINNED,
    SYNC,
)

# tare's own annotation of a step (tare.worker.profiling); torch.profiler's schedule writes ProfilerStep#N.
STEP = "tare::step"
# Its annotation of Python's collector, which it lets run after the last step that it profiles.
COLLECTION = "tare::collection"
_STEP = re.compile(r"(?:ProfilerStep|tare::step)#(\d{1,18})")

_CALLS = (
    (GRAPH, re.compile(r"GraphLaunch")),
    (LAUNCH, re.compile(r"Launch(?!HostFunc)")),
    (COPY_CALL, re.compile(r"Memcpy")),
    (MEMSET_CALL, re.compile(r"Memset|cuMemsetD")),
    (SYNC, re.compile(r"Synchronize")),
    (
        ALLOCATE,
        re.compile(r"Malloc|Free|HostAlloc|HostRegister|Mem(Create|Map|Unmap|Release|Address|Alloc)"),
    ),
)
_DIRECTION = re.compile(r"\b(HtoD|DtoH|DtoD|HtoH|PtoP)\b|(Host|Device) ?(?:->|To) ?(Host|Device)")
_SHORT = {
    "HtoD": HOST_TO_DEVICE,
    "DtoH": DEVICE_TO_HOST,
    "DtoD": DEVICE_TO_DEVICE,
    "HtoH": HOST_TO_HOST,
    "PtoP": PEER,
}


def step_number(name: str) -> int | None:
    found = _STEP.fullmatch(name)
    return int(found[1]) if found else None


def call_kind(name: str) -> int:
    return next((kind for kind, pattern in _CALLS if pattern.search(name)), OTHER)


def copy_direction(name: str) -> int:
    """From names such as 'Memcpy HtoD (Pageable -> Device)'."""
    found = _DIRECTION.search(name)
    if not found:
        return -1
    return _SHORT[found[1] or f"{found[2][0]}to{found[3][0]}"]


def copy_memory(name: str) -> int:
    """Which host memory a copy touches: only a pinned one runs beside the program."""
    if "Pageable" in name:
        return PAGEABLE
    return PINNED if "Pinned" in name else -1
