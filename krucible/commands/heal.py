"""``krucible heal``: undo what killed harnesses left behind."""

from __future__ import annotations

import typer

from harness.healing.heal import heal_all
from harness.verdict import EXIT_HARNESS, EXIT_VALID
from krucible.console import Json, out, print_json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="heal",
        help="Clean up after runs whose harness was killed: stop their nodes and relays, and undo "
        "their faults. Every run does the same before it begins. Exits 0 when nothing is left "
        "behind, else 255.",
        short_help="Clean up after runs whose harness was killed.",
        epilog="Example: krucible heal",
    )(heal)


def heal(json: Json = False) -> int:
    """Exit 0 when nothing of ours is left, 255 when something could not be healed."""
    found = heal_all()
    if json:
        print_json([leftover.to_json() for leftover in found])
    else:
        for leftover in found:
            what = ", ".join(f"{k} {v}" for k, v in sorted(leftover.what.items()))
            done = "healed" if leftover.done else "STILL THERE"
            line = f"{leftover.run}: {leftover.kind} ({what}): {done}: {leftover.action}"
            out().print(line, markup=False)
        if not found:
            out().print("nothing to heal")
    return EXIT_VALID if all(leftover.done for leftover in found) else EXIT_HARNESS
