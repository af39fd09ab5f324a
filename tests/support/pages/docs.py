"""Pages of docs/ that are made from the program; ``pytest --rewrite`` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import typer.main

from krucible.app import VERBS, build
from krucible.commands.check import PRECEDENCE
from krucible.commands.listing import PLUGINS, rows

Row = Sequence[str]
REMARK = "<!-- Made by `pytest tests/house/test_docs.py --rewrite`; do not edit. -->"
_EXITS = (
    ("0", "valid: every promise was kept, every asked fault happened"),
    ("1", "invalid: a promise was broken; wins over everything"),
    ("2", "unknown: not enough happened, or a checker could not decide"),
    ("130", "interrupted by Ctrl-C or SIGTERM, and not invalid"),
    ("254", "bad arguments, unknown names, files that cannot be read"),
    ("255", "the harness, or the host, broke"),
)


def cli_page() -> str:
    """``docs/cli.md``: every command with its options and an example."""
    return page(_cli())


def plugins_page() -> str:
    """``docs/plugins.md``: every plug-in of this project with its description."""
    return page(_plugins())


def page(lines: Iterable[str]) -> str:
    """The lines as a text."""
    return "\n".join(lines) + "\n"


def _cli() -> Iterator[str]:
    yield from ("# Command line", "", REMARK, "")
    yield "A mistake is one line on standard error: `krucible: what, where, what to do`."
    yield "Every command takes `--help`, and `--json` for machines: one JSON value on one line of"
    yield "standard output (`zoo`: before it a line for each bug). Progress goes to standard error."
    yield from ("", "| exit code | meaning |", "|---|---|")
    yield from (f"| {code} | {meaning} |" for code, meaning in _EXITS)
    yield ""
    order = ", ".join(map(str, PRECEDENCE))
    yield f"`krucible check` of many paths exits with the first of {order} that one of them has."
    group: Any = typer.main.get_command(build())
    for verb in VERBS:
        yield from _command(verb, group.commands[verb])


def _command(verb: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["krucible", verb, "[OPTIONS]", *map(_argument, arguments)])
    yield from ("", f"## krucible {verb}", "", command.help, "", f"    {usage}", "")
    yield f"{command.epilog.replace('Example: ', 'Example: `', 1)}`"
    yield from ("", "| option | default | what it does |", "|---|---|---|")
    for argument in arguments:
        default = _default(argument)
        yield row((f"`{_argument(argument)}`", default, argument.help or ""))
    for option in options:
        yield row((f"`{', '.join(option.opts)}`", _default(option), option.help or ""))


def _argument(argument: Any) -> str:
    name = str(argument.name).upper().rstrip("_")
    name = name if argument.nargs == 1 else f"{name}..."
    return name if argument.required else f"[{name}]"


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default
    if value is None or value is False:
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _plugins() -> Iterator[str]:
    yield from ("# Plug-ins", "", REMARK, "")
    yield "What `krucible list` shows for this project; [adding.md](adding.md) says how to add one."
    for kind in PLUGINS:
        entries = rows(kind)
        extra = sorted({key for entry in entries for key in entry} - {"name", "description"})
        head = ("name", *extra, "what it does")
        yield from ("", f"## {kind}", "", row(head), "|---" * len(head) + "|")
        for entry in entries:
            more = (entry.get(key, "") for key in extra)
            yield row((f"`{entry['name']}`", *more, entry["description"]))


def row(cells: Iterable[str]) -> str:
    """One row of a table."""
    inside = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(inside)} |"
