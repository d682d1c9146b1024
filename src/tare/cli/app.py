"""The command line: the options of each verb. Nothing heavy is imported before a verb needs it."""

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

import typer

import tare
from tare.cli import (
    baseline,
    bisect,
    check,
    emit,
    env,
    explain,
    fleet,
    machine,
    measure,
    records,
    report,
    serve,
    store,
    study,
    team,
    train,
)
from tare.cli.help import GroupedHelp, PlainHelp
from tare.cli.streams import prepare_streams, silence
from tare.errors import TareError
from tare.system.arguments import hide_arguments
from tare.system.text import one_line

# Typer carries Click inside or beside it, depending on its version: its own exports name the class either way.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# The exit code of a shell for a command that SIGINT ended, and that of Typer.
INTERRUPTED = 130

# Without `\b` Click would join the lines.
EXAMPLES = """\b
Examples:
  tare run mnist_cnn                       a first ladder: needs no other package
  tare run resnet50 --mode train --batch 32
  tare run @smoke --rung eager,compile     a group of workloads on two rungs
  tare explain resnet50                    where the time of a step goes
  tare check night.toml --baseline main    exit code 1 on a regression
"""

app = typer.Typer(
    name="tare",
    cls=GroupedHelp,
    help="Measures what every layer of a deep-learning stack costs.",
    epilog=EXAMPLES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
VERBS: dict[str, dict[str, Callable[..., Any]]] = {
    "Measure": {"run": measure.run, "train": train.train, "coverage": measure.coverage},
    "Explain": {
        "explain": explain.explain,
        "diff": explain.diff,
        "frames": explain.frames,
        "emit": emit.emit,
    },
    "Guard": {
        "check": check.check,
        "compare": check.compare,
        "history": records.history,
        "bisect": bisect.bisect,
        "calibrate": check.calibrate,
    },
    "Records": {
        "show": records.show,
        "list": records.list_,
        "export": records.export,
        "import": records.import_,
        "report": report.report,
    },
    "Machine": {"doctor": machine.doctor, "build": machine.build, "peaks": machine.peaks},
    "Team": {"nightly": team.nightly, "push": team.push},
}

# The verb, once its options have been read: it says itself how it ended.
_begun: list[str] = []


def _saying_interruptions(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that Ctrl-C may end. Typer would end it without a word."""

    @functools.wraps(verb)
    def run_verb(*args: Any, **options: Any) -> Any:
        _begun.append(verb.__name__)
        try:
            return verb(*args, **options)
        except KeyboardInterrupt:
            raise typer.Abort from None

    return run_verb


for _panel, _verbs in VERBS.items():
    for _name, _function in _verbs.items():
        app.command(_name, cls=PlainHelp, rich_help_panel=_panel)(_saying_interruptions(_function))
app.add_typer(baseline.app, name="baseline", rich_help_panel="Guard")
app.add_typer(env.app, name="env", rich_help_panel="Machine")
app.add_typer(fleet.app, name="fleet", rich_help_panel="Team")
app.add_typer(store.app, name="store", rich_help_panel="Records")
app.add_typer(serve.app, name="serve", rich_help_panel="Team")
app.add_typer(study.app, name="study", rich_help_panel="Measure")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tare {tare.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def run() -> NoReturn:
    """Runs a verb. An error that the user can mend is one line on stderr and an exit code."""
    prepare_streams()
    hide_arguments()
    sys.excepthook = _show_crash
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED and not _begun:
            raise KeyboardInterrupt
    except UsageError as error:
        code = _complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except TareError as error:
        code = _complain(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        # Rich and Typer exit with 1 on a closed pipe, which would mean that a case failed.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader of our output (head, less) has closed it; nothing is wrong.
        silence(1)
        code = 0
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.end]
        code = _complain(f"cannot write {text!a}, which {error.encoding} has no characters for", 2)
    except OSError as error:
        if error.filename is not None:
            # An error of another file: our output has no name here.
            raise
        code = _complain(f"cannot write the output: {error.strerror}", 2)
        silence(1)
    sys.exit(code or 0)


def _show_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback of an error of our own, which users publish, without the secrets that it may repeat."""
    from traceback import format_exception

    from tare.system.redaction import redact

    sys.stderr.write(redact("".join(format_exception(kind, error, trace))))


def _complain(message: str, code: int) -> int:
    from tare.system.redaction import redact

    try:
        print("tare: " + one_line(redact(message)), file=sys.stderr, flush=True)
    except OSError:
        # Standard error is closed too.
        silence(2)
    return code
