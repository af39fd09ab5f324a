"""A night in a few sentences: what matters most comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.catalogue import full_name
from harness.nightly.ledger import UNDECIDED
from harness.verdict import EXIT_VALID

Told = Mapping[str, Any]  # a night's summary.json; one of an older night lacks keys

NAMED_MAX: Final = 3  # invariants that a sentence names
_MINUTES_FROM_S: Final = 90  # less is told in seconds
_HOURS_FROM_S: Final = 90 * 60  # less is told in minutes


def colour(told: Told) -> str:
    """``green`` or ``red``."""
    return "green" if told["exit_code"] == EXIT_VALID else "red"


def sentences(told: Told) -> list[str]:
    """Sum the night up in one sentence or more; the last ends with how long it took."""
    took = length(told["used_s"])
    if told["exit_code"] == EXIT_VALID:
        return [
            f"{_count(told['histories'], 'history', 'histories')}, {_all_but(told)}, in {took}."
        ]
    found = list(_red(told)) or [*map(str, told["reasons"][:1])]
    if not told["histories"] or _runs(told, "invalid") or _runs(told, "unknown"):
        return [*found, f"It took {took}."]
    checked = _count(told["histories"], "history", "histories")
    return [*found, f"It checked {checked} in {took}."]


def length(seconds: float) -> str:
    """A length of time as people say it: ``45 s``, ``59 min``, ``7 h 58 min``."""
    if seconds < _MINUTES_FROM_S:
        return f"{seconds:.0f} s"
    if seconds < _HOURS_FROM_S:
        return f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _red(told: Told) -> Iterator[str]:
    yield from _invalid(told)
    for name, canary in told["canaries"].items():
        if not canary["caught"]:
            yield f"The seeded bug {name} was not caught."
    different = len(told["not_same_bytes"])
    if different:
        seeds = _count(different, "seed")
        yield f"{seeds} did not give the same bytes twice."
    errors = told["harness_errors"]
    if errors:
        yield f"The harness broke: {errors[0]}" + (
            f"; and in {_count(len(errors) - 1, 'other way')}." if errors[1:] else "."
        )
    if not told["histories"]:
        yield "No history was checked."
    doubtful = _runs(told, "unknown")
    if doubtful:
        of = _count(told["histories"], "history", "histories")
        yield f"{doubtful:,} of {of} {'is' if doubtful == 1 else 'are'} in doubt."
    for name in told.get("not_tried", ()):
        yield f"The seeded bug {name} was not tried."
    missing = told["never"] or ()
    if missing:
        things = "thing that had to happen" if len(missing) == 1 else "things that had to happen"
        yield f"Coverage is missing: {len(missing)} {things} never did."
    idle = told.get("premises_missing", ())
    if idle:
        names = ", ".join(map(full_name, idle[:NAMED_MAX]))
        more = f" and {len(idle) - NAMED_MAX} more" if len(idle) > NAMED_MAX else ""
        whose = "its premise" if len(idle) == 1 else "their premises"
        yield f"There was nothing to judge for {names}{more}: {whose} never came true."


def _invalid(told: Told) -> Iterator[str]:
    """Failures of sound nodes before those with a seeded bug, which are no news."""
    invalid = _runs(told, "invalid")
    if not invalid:
        return
    of = _count(told["histories"], "history", "histories")
    failing = [each for each in told["failing"] if each["verdict"] == "invalid"]
    sound = [each for each in failing if not each.get("mutant")]
    with_bug = sum(each["times"] for each in failing if each.get("mutant"))
    if not sound:
        yield "All failures are runs with a seeded bug."
        yield f"{invalid:,} of {of} {'is' if invalid == 1 else 'are'} invalid."
        return
    ways = _count(ways_to_fail(sound), "way")
    times = sum(each["times"] for each in sound)
    are = "is" if times == 1 else "are"
    yield f"{times:,} of {of} {are} invalid, in {ways}{_explained(sound)}."
    if with_bug:
        runs = _count(with_bug, "more run")
        yield f"{runs} with a seeded bug failed, as {'it' if with_bug == 1 else 'they'} should."


def _explained(failing: list[Told]) -> str:
    """Tell how many of the ways to fail are known; nothing where none is."""
    ways = ways_to_fail(failing)
    news = ways_to_fail([each for each in failing if not each.get("findings")])
    if news == ways:
        return ""
    return ", all known" if not news else f", {ways - news:,} of them known"


def ways_to_fail(failing: list[Told]) -> int:
    """Different signatures among failures; entries that fail in the same way count once."""
    return len({each.get("signature") or ", ".join(each["invariants"]) for each in failing})


def _all_but(told: Told) -> str:
    undecided = _runs(told, UNDECIDED)
    return f"all valid but {undecided:,} in which too little happened" if undecided else "all valid"


def _runs(told: Told, verdict: str) -> int:
    return sum(each["verdicts"].get(verdict, 0) for each in told["entries"].values())


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
