"""The command line. An interruption is told in one line from the first moment on, also while Python imports."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The entry point `tare`."""
    try:
        from tare.cli.app import run

        run()
    except KeyboardInterrupt:
        # A second Ctrl-C while this exits would be told by Python.
        print("tare: interrupted", file=sys.stderr)
        sys.exit(130)
