"""The command under a report, for someone who reads it elsewhere."""

import pytest

from tare.commands.check import reproduce


@pytest.mark.parametrize(
    "arguments",
    [
        "check night.toml --baseline main --resume --format markdown",
        "check night.toml --baseline main -o report.md --format markdown",
        "check night.toml --baseline main -oreport.md --format markdown",
        "check night.toml --baseline main --output report.md --resume --format markdown",
        "check night.toml --output=report.md --baseline main --format markdown",
        "check night.toml --baseline main --format markdown",
    ],
)
def test_the_command_measures_anew_and_writes_no_file(arguments: str) -> None:
    assert reproduce(arguments.split()) == "tare check night.toml --baseline main --format markdown"


def test_what_a_shell_would_split_is_quoted() -> None:
    assert reproduce(["compare", "newest~1", "gpu=NVIDIA H200"]) == "tare compare 'newest~1' 'gpu=NVIDIA H200'"
