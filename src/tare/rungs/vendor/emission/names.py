"""Names from a network as C++: identifiers, comments and literals that nothing in a name can break out of."""

import re
from math import isinf, isnan

_OF_CPP = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
int linux long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename union unix unsigned using virtual
void volatile wchar_t while xor xor_eq
"""
# What the source around a name calls itself, and what headers define.
_OF_THE_SOURCE = """
Buffer Region RegionSize assert at backward bytes errno forward int64_t kernels memory ops region_count
regions run saved scratch start std stderr stdin stdout step tare team uint8_t update
"""
TAKEN = frozenset(f"{_OF_CPP} {_OF_THE_SOURCE}".split())
LONGEST = 100


def identifier(name: str) -> str:
    """`layer1.0.conv1` as `layer1_0_conv1`. Two underscores in a row and those at the ends belong to compilers."""
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]", "_", name)).strip("_")[:LONGEST].strip("_")
    if not plain or plain[0].isdigit():
        plain = f"module_{plain}".strip("_")
    # A name in capitals may be a macro of some header: INFINITY, NAN, EOF.
    return f"{plain}_" if plain in TAKEN or plain.isupper() else plain


class Names:
    """Each name once: the second of a kind gets a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def make(self, name: str) -> str:
        plain = identifier(name)
        chosen, number = plain, 1
        while chosen in self._taken:
            number += 1
            chosen = f"{plain}_{number}"
        self._taken.add(chosen)
        return chosen


def comment(text: str) -> str:
    """A text for the rest of a line behind `//`. A backslash at its end would take the next line with it."""
    return re.sub(r"[^\x20-\x7e]|\\", "?", text)[:200].rstrip()


def number(value: float) -> str:
    """A float of C++."""
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{float(value)!r}f"


def braces(numbers: object) -> str:
    """`{1, 2, 3}`"""
    assert isinstance(numbers, list | tuple)
    return f"{{{', '.join(str(int(each)) for each in numbers)}}}"


def shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"
