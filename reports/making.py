"""Tells how a run came to be, for the head of its report: date, host, version, folder, origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.store.origin import Origin
from harness.store.remote.address import is_remote
from reports.model import Made
from reports.text import clean

COMMIT_CHARS = 10
STORY_LINES_MAX = 60
WORDS = {"faults": "faults", "ops": "ops", "nodes": "nodes", "seconds": "s"}
NAMED_MAX = 6  # kinds of fault; of more their number
_PAIR = 2


def made(spec: RunSpec, result: Mapping[str, Any], place: RunDir | None) -> Made:
    """Gather what ``run.json``, results and options tell; of a run without a folder the options."""
    origin = Origin("") if place is None else place.read_origin()
    shrunk = result.get("shrunk")
    about: Mapping[str, Any] = shrunk if isinstance(shrunk, Mapping) else {}
    story = about.get("story")
    lines = story if isinstance(story, list) else []
    return Made(
        facts=tuple(_facts(spec, origin, place)),
        mutant="" if spec.mutant is None else clean(spec.mutant, limit=80),
        shrunk=_shrunk(origin, about) if origin.by == "shrink" or about else "",
        story=tuple(clean(line, limit=300) for line in lines[:STORY_LINES_MAX]),
    )


def _facts(spec: RunSpec, origin: Origin, place: RunDir | None) -> Iterator[tuple[str, str]]:
    if origin.begun:
        yield "begun", clean(_moment(origin.begun), limit=60)
    if origin.host:
        yield "on", clean(origin.host, limit=100)
    if origin.version:
        commit = f", commit {clean(origin.commit[:COMMIT_CHARS])}" if origin.commit else ""
        yield "krucible", clean(origin.version, limit=60) + commit
    yield "environment", clean(spec.env, limit=60)
    if (asked := spec.asked or spec.nemeses) and place is not None:
        many = f"{len(asked)} kinds" if len(asked) > NAMED_MAX else ", ".join(asked)
        yield "faults", clean(many, limit=400)
    if origin.by and origin.by != "shrink":
        yield "by", clean(str(origin), limit=100)
    if place is not None:
        name = place.told
        where = ("address", name) if is_remote(name) else ("folder", place.path.absolute())
        yield where[0], clean(where[1], limit=400)


def _moment(begun: str) -> str:
    """``2026-01-02 12:00:00 UTC`` of ISO 8601."""
    day, _, time = begun.partition("T")
    return f"{day} {time[:8]} UTC" if time.endswith("+00:00") else begun


def _shrunk(origin: Origin, about: Mapping[str, Any]) -> str:
    """Tell what a run was shrunk from, and what is left: ``2 of 15 faults, 40 of 900 ops``."""
    kept = about.get("kept")
    pairs = kept if isinstance(kept, Mapping) else {}
    parts = [
        f"{_number(pair[0])} of {_number(pair[1])} {word}"
        for name, word in WORDS.items()
        if isinstance(pair := pairs.get(name), list) and len(pair) == _PAIR
    ]
    of = f" from {clean(origin.of, limit=100)}" if origin.of else ""
    return f"Shrunk{of}" + (f": {', '.join(parts)}" if parts else "")


def _number(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, int | float) else clean(value, limit=20)
