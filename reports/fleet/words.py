"""The first words of the fleet report: what the last night and the store came to."""

from __future__ import annotations

from dataclasses import dataclass

from reports.fleet.model import Fleet
from reports.fleet.nights import Night
from reports.text import count


@dataclass(frozen=True, slots=True)
class Head:
    """The headline and what stands below it; ``tone`` is one of the words of verdicts."""

    tone: str
    first: str
    rest: tuple[str, ...] = ()


def head(fleet: Fleet) -> Head:
    """Make the headline; the gravest comes first.

    The last night has the headline, unless a run that began after it failed without a seeded bug.
    """
    night = fleet.nights[0] if fleet.nights else None
    store = _store(fleet)
    if night is None:
        return store
    first, *more = _of_night(night)
    newer = [run for run in fleet.failing if run.started_s > night.begun_s]
    if newer and not night.exit_code:
        return Head(store.tone, store.first, (*store.rest, first, *more))
    rest = (*more, f"In the store: {_in_store(fleet)}") if fleet.runs else tuple(more)
    return Head(_tone(night), first, rest)


def _tone(night: Night) -> str:
    if night.exit_code == 1:
        return "invalid"
    return {0: "valid", 2: "unknown"}.get(night.exit_code, "broken")


def _of_night(night: Night) -> list[str]:
    first, *more = night.sentences or (f"{count(night.histories, 'history', 'histories')}.",)
    return [f"Last night: {night.colour}. {first}", *more]


def _store(fleet: Fleet) -> Head:
    """The headline of a store without nights: the worst that there is, then the rest."""
    if not fleet.runs:
        return Head("unknown", "The store has no runs yet.")
    told = _sentences(fleet)
    if not told:
        return Head("valid", f"{_all(len(fleet.runs))} valid.")
    (tone, first), *others = told
    return Head(tone, first, tuple(sentence for _, sentence in others))


def _all(runs: int) -> str:
    return "The only run is" if runs == 1 else f"All {runs:,} runs are"


def _sentences(fleet: Fleet) -> list[tuple[str, str]]:
    """A tone and a sentence for each kind of trouble, the worst first."""
    of = count(len(fleet.runs), "run")
    sound = len(fleet.failing)
    seeded = fleet.counts.get("invalid", 0) - sound
    broken, doubt, unjudged = (
        fleet.counts.get(word, 0) for word in ("broken", "unknown", "unjudged")
    )
    found = []
    if sound:
        ways = count(sum(not way.mutants for way in fleet.ways), "way")
        found.append(("invalid", f"{sound:,} of {of} {_are(sound)} invalid, in {ways}."))
    if seeded:
        more = "more " if sound else ""
        if not sound:
            found.append(("valid", "All failures are runs with a seeded bug."))
        runs = count(seeded, f"{more}run")
        found.append(("valid", f"{runs} with a seeded bug {_are(seeded)} invalid."))
    if broken:
        found.append(("broken", f"{broken:,} of {of} could not be done: the harness broke."))
    if doubt:
        found.append(("unknown", f"{doubt:,} of {of} {_are(doubt)} in doubt."))
    if unjudged:
        was = "was" if unjudged == 1 else "were"
        found.append(
            ("unknown", f"{unjudged:,} of {of} {was} not judged: cut short, or still under way.")
        )
    return sorted(found, key=lambda told: _WORST.index(told[0]))


_WORST = ("invalid", "broken", "unknown", "valid")


def _in_store(fleet: Fleet) -> str:
    runs = count(len(fleet.runs), "run")
    sound = len(fleet.failing)
    seeded = fleet.counts.get("invalid", 0) - sound
    parts = [
        (sound, "invalid"),
        (seeded, "invalid with a seeded bug"),
        (fleet.counts.get("broken", 0), "broken"),
        (fleet.counts.get("unknown", 0), "in doubt"),
        (fleet.counts.get("unjudged", 0), "not judged"),
        (fleet.counts.get("valid", 0), "valid"),
    ]
    told = ", ".join(f"{number:,} {word}" for number, word in parts if number)
    return f"{runs}, {told}."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
