"""The ``krucible`` command: its verbs are in ``krucible/commands``, errors and exit codes here.

Exit codes: 0 valid, 1 invalid, 2 unknown, 130 interrupted, 254 bad arguments, 255 the harness
broke. A user's mistake is one line on standard error: ``krucible: what, where, what to do``.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness.errors import HarnessError
from harness.processes.command import end_with_parent
from harness.processes.imports import without_hypothesis
from harness.verdict import EXIT_HARNESS, EXIT_USAGE
from krucible import commands
from krucible.console import EXIT_INTERRUPTED, complain
from krucible.stores import closing

HELP_CHARS = 80
EXIT_PIPE = 141  # the shell's own code for a reader that went away

# The verbs by the groups of the help, each with its module, which is imported when it is wanted.
GROUPS = {
    "Run": {
        "run": "run",
        "sim": "sim",
        "differ": "differ",
        "repro": "repro",
        "shrink": "shrink",
        "explore": "explore",
        "zoo": "zoo",
        "nightly": "nightly",
    },
    "Judge": {"check": "check", "analyze": "analyze"},
    "Report": {"report": "report", "serve": "serve"},
    "Host": {"doctor": "doctor", "heal": "heal", "list": "listing", "explain": "explain"},
}
VERBS = {verb: module for verbs in GROUPS.values() for verb, module in verbs.items()}


class Grouped(TyperGroup):
    """Lists the verbs in the help by group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        for title, verbs in GROUPS.items():
            found = [(verb, self.get_command(ctx, verb)) for verb in verbs]
            rows = [(verb, each.get_short_help_str(HELP_CHARS)) for verb, each in found if each]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; a user's mistake is never a traceback.

    Args:
        argv: The arguments without the program's name; None takes the process's own.
    """
    if argv is None:
        end_with_parent()
        without_hypothesis()
    try:
        with _terminable():
            code = _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # a second one, while the first was told
        code = EXIT_INTERRUPTED
    if argv is None:  # what is left is Python's own end, and no place for a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def build(verbs: Sequence[str] = tuple(VERBS)) -> typer.Typer:
    """The command line with these verbs; all of them when not given."""
    app = typer.Typer(
        name="krucible",
        cls=Grouped,
        help="Test KRaft, and systems like it, under faults: run a cluster, break it, judge it.",
        epilog="Example: krucible run --voters 3 --nemesis kill,partition --time-limit 30",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for verb in verbs:
        importlib.import_module(f"{commands.__name__}.{VERBS[verb]}").add_to(app)
    return app


def _root(
    ctx: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """The command line without a verb."""
    if show_version:
        sys.stdout.write(f"krucible {version('krucible')}\n")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help() + "\n")


def _run(argv: list[str]) -> int:
    try:
        app = build(argv[:1] if argv[:1] and argv[0] in VERBS else tuple(VERBS))
        with closing():
            code = app(args=argv, prog_name="krucible", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:  # what typer itself says about the arguments
        complain(f"{error.format_message().rstrip('.')} (see '{_command(error)} --help')")
        return EXIT_USAGE
    except HarnessError as error:
        complain(str(error))
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):  # typer makes the latter of the former
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the flush at exit would fail again
        return EXIT_PIPE
    except OSError as error:
        complain(f"{error}: this host refused what krucible needs; see 'krucible doctor'")
        return EXIT_HARNESS
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python wraps it in a class's making
            complain("interrupted")
            return EXIT_INTERRUPTED
        traceback.print_exc()
        complain(f"this is a bug of krucible, please report it: {error!r}")
        return EXIT_HARNESS
    if code == EXIT_INTERRUPTED:
        complain("interrupted")
    return code if isinstance(code, int) else 0


def _command(error: typer.TyperException) -> str:
    return str(getattr(getattr(error, "ctx", None), "command_path", "krucible"))


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end us as Ctrl-C does: with everything we started stopped and healed."""

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    # A shell that starts us in the background has us ignore SIGINT, and SIGTERM would be lost too.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
