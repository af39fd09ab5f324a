"""The ``krucible`` command: one module of this folder per verb, errors and exit codes here.

Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 the harness broke.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from harness.cli import check, doctor, heal, listing, report, repro, run
from harness.cli.console import complain
from harness.errors import HarnessError
from harness.verdict import EXIT_USAGE

EXIT_INTERRUPTED = 130  # the shell's own code for Ctrl-C

app = typer.Typer(
    name="krucible",
    help="Fault injection and linearizability testing for KRaft.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (run, repro, check, report, listing, doctor, heal):
    verb.add_to(app)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; a user's mistake is one line, never a traceback.

    Args:
        argv: The arguments without the program's name; None takes the process's own.
    """
    sys.exit(_run(list(sys.argv[1:] if argv is None else argv)))


def _run(argv: list[str]) -> int:
    if not argv:
        argv = ["--help"]
    try:
        code = app(args=argv, standalone_mode=False)
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        complain("interrupted")
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = "krucible" if context is None else context.command_path
        complain(f"{error.format_message()} (see '{path} --help')")
        return EXIT_USAGE
    except HarnessError as error:
        complain(str(error))
        return error.exit_code
    return code if isinstance(code, int) else 0
