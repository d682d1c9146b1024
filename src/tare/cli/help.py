"""How the help of the commands is laid out."""

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

# What the help calls the values of options that name none themselves.
VALUES = {
    **dict.fromkeys(("rounds", "jobs", "runs", "rows", "steps", "threads"), "N"),
    **dict.fromkeys(("budget", "timeout"), "SECONDS"),
    **dict.fromkeys(("width", "confidence"), "SHARE"),
    **dict.fromkeys(("output", "annotate", "html", "svg"), "FILE"),
    **dict.fromkeys(("command", "install", "build"), "COMMAND"),
    **dict.fromkeys(("good", "bad"), "LABEL"),
    "memory": "MIB",
    "case": "KEY",
    "sort": "COLUMN",
    "against": "RUNG|TRACE",
    "python": "PYTHON",
}


# The verbs that take a command after `--` in the place of a workload.
TAKE_COMMANDS = ("run", "check", "calibrate")
# With this option `explain` does.
LIVE = "--live"


class PlainHelp(TyperCommand):
    """Help in which values have names instead of Python's types. All that follows `--` is a command, of which the
    verb sees the name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        if at < len(args) and (self.name in TAKE_COMMANDS or LIVE in args[:at]):
            from tare.workloads.commands import add_command

            args = [*args[:at], add_command(args[at + 1 :])]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            if isinstance(parameter, TyperArgument):
                parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign] # noqa: ARG005
            elif isinstance(parameter, TyperOption) and not parameter.is_flag and parameter.metavar is None:
                parameter.metavar = VALUES.get(parameter.name, "NAMES" if parameter.multiple else "NAME")
        super().format_options(ctx, formatter)


class GroupedHelp(TyperGroup):
    """Lists the verbs by their help panel. Rich's own panels take twice the time to print, and need Unicode."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = str(getattr(command, "rich_help_panel", None) or "Commands")
            panels.setdefault(panel, []).append((name, command.get_short_help_str(formatter.width)))
        width = max(map(len, self.commands))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])
