"""The arguments of this process as others see them (`ps`): passwords of addresses are overwritten there."""

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

from tare.system.redaction import passwords_of

# The fields of /proc/PID/stat (proc(5)) with the place of the arguments in memory, counted from 1.
ARG_START, ARG_END = 48, 49
# Linux allows more, and no command of ours has that many.
MOST_BYTES = 1 << 20


def hide_arguments() -> None:
    """Puts stars over the passwords. Linux shows the memory of the process itself; elsewhere nothing happens, and
    a reader that was faster than this has seen them."""
    # An address is an argument by itself, or follows the name of its option.
    addresses = {part for argument in sys.orig_argv for part in (argument, argument.partition("=")[2])}
    passwords = {password for address in addresses for password in passwords_of(address)}
    if not passwords:
        return
    with suppress(OSError, ValueError, IndexError):
        # The name of the program, which may contain anything, ends with the last parenthesis.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = (int(fields[number - 3]) for number in (ARG_START, ARG_END))
        if not 0 < end - start <= MOST_BYTES:
            return
        shown = ctypes.string_at(start, end - start)
        # What was read is what Linux shows: a kernel without these fields gives other numbers.
        if shown != Path("/proc/self/cmdline").read_bytes():
            return
        for password in passwords:
            hidden = password.encode(errors="surrogateescape")
            place = shown.find(hidden)
            while place >= 0:
                ctypes.memset(start + place, ord("*"), len(hidden))
                place = shown.find(hidden, place + 1)
