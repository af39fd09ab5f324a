"""``krucible heal``: undo what killed harnesses left behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from harness.healing.heal import Leftover, heal_all
from harness.store.remote.copies import has_copies
from harness.verdict import EXIT_HARNESS, EXIT_VALID
from krucible.console import Json, out, print_json
from krucible.stores import mirror_of

PARTS_KEPT: Final = timedelta(days=1)  # as long no upload takes


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="heal",
        help="Clean up after runs whose harness was killed: stop their nodes and relays, undo "
        "their faults, and store what they have not stored yet in object storage. Every run does "
        "the same before it begins. With --store it also removes runs from that store of which "
        "only a part was stored, or removed, more than a day ago. Exits 0 when nothing is left "
        "behind, else 255.",
        short_help="Clean up after runs whose harness was killed.",
        epilog="Example: krucible heal",
    )(heal)


def heal(
    store: Annotated[
        str | None,
        typer.Option(metavar="s3://BUCKET/PREFIX", help="Store in object storage to clean up."),
    ] = None,
    json: Json = False,
) -> int:
    """Exit 0 when nothing of ours is left, 255 when something could not be healed."""
    found = [*heal_all(), *_stores(store)]
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


def _stores(store: str | None) -> Iterator[Leftover]:
    """Look after stores in object storage, as far as this machine has used any."""
    if store is not None:
        mirror = mirror_of(store)
        for run in mirror.sweep(datetime.now(UTC) - PARTS_KEPT):
            yield Leftover(run, "part of a run", {"store": store}, "removed", done=True)
    if has_copies():
        from harness.store.remote.mirror import store_left  # noqa: PLC0415 - an extra is needed

        yield from store_left()
