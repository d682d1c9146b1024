"""The command line: one file a verb. Nothing heavy is imported before a verb needs it."""

import sys
from typing import NoReturn

import typer

import tare
from tare.cli import (
    baseline,
    bisect,
    build,
    calibrate,
    check,
    compare,
    coverage,
    diff,
    doctor,
    explain,
    export,
    frames,
    history,
    importing,
    listing,
    peaks,
    prove,
    run,
    show,
)
from tare.cli.streams import prepare_streams, silence
from tare.errors import TareError
from tare.system.text import one_line

# Typer carries Click inside or beside it, depending on its version: its own exports name the class either way.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="tare",
    help="Measures what every layer of a deep-learning stack costs.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("list")(listing.list_)
app.command("show")(show.show)
app.command("export")(export.export)
app.command("build")(build.build)
app.command("doctor")(doctor.doctor)
app.command("explain")(explain.explain)
app.command("peaks")(peaks.peaks)
app.command("diff")(diff.diff)
app.command("coverage")(coverage.coverage)
app.command("compare")(compare.compare)
app.add_typer(baseline.app, name="baseline")
app.command("check")(check.check)
app.command("calibrate")(calibrate.calibrate)
app.command("bisect")(bisect.bisect)
app.command("history")(history.history)
app.command("import")(importing.import_)
app.command("prove")(prove.prove)
app.command("frames")(frames.frames)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tare {tare.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> NoReturn:
    """Runs a verb; every error that is the user's is one line on stderr and an exit code."""
    prepare_streams()
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        code = _complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except TareError as error:
        code = _complain(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted", 130)
    except (BrokenPipeError, SystemExit) as error:
        # Rich and Typer end the process on a closed pipe with 1, which would say that a case failed.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader of our output (head, less) has gone; nothing is wrong.
        silence(1)
        code = 0
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.end]
        code = _complain(f"cannot write {text!a}, which {error.encoding} has no characters for", 2)
    except OSError as error:
        if error.filename is not None:
            # Not of our output: that has no name here.
            raise
        code = _complain(f"cannot write the output: {error.strerror}", 2)
        silence(1)
    sys.exit(code or 0)


def _complain(message: str, code: int) -> int:
    try:
        print("tare: " + one_line(message), file=sys.stderr, flush=True)
    except OSError:
        # Nobody can be told.
        silence(2)
    return code
