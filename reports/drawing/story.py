"""Builds a story: steps beside rails, each of which shows what a node holds at that time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reports.blocks import Note, Step, Story

NOTHING = ""
PITCH = 24  # pixels from rail to rail
MARK = 14  # pixels from the top of a step to its mark
BOTTOM = 999  # below every step, whose drawing ends where the step does

Tones = Mapping[str, str]  # what each rail holds


@dataclass(frozen=True, slots=True)
class Turn:
    """A moment of a story. ``becomes`` is the new tone of its rail; None leaves it as it was."""

    time_ns: int
    rail: str  # the node; "" for what is of no node
    place: int  # among the events of the node
    note: Note
    becomes: str | None = None
    strong: bool = False


@dataclass(slots=True)
class StoryBuilder:
    """Collects turns, then lays them out."""

    turns: list[Turn] = field(default_factory=list)

    @property
    def end_ns(self) -> int | None:
        """Tell when the last turn was."""
        return max((turn.time_ns for turn in self.turns), default=None)

    def build(self, rails: Sequence[str], links: Mapping[str, str], alt: str, most: int) -> Story:
        """The story in order of time; of a long one the beginning and the end."""
        ordered = sorted(self.turns, key=lambda turn: (turn.time_ns, turn.rail, turn.place))
        tones = dict.fromkeys(rails, NOTHING)
        steps = []
        for turn in ordered:
            before = dict(tones)
            if turn.becomes is not None and turn.rail in tones:
                tones[turn.rail] = turn.becomes
            x = _x(list(rails).index(turn.rail)) if turn.rail in tones else None
            steps.append(Step(turn.note, x, _paths(before, tones), turn.strong))
        return Story(tuple((name, links.get(name, "")) for name in rails), _cut(steps, most), alt)


def _x(rail: int) -> int:
    return rail * PITCH + PITCH // 2


def _paths(before: Tones, after: Tones) -> tuple[tuple[str, str], ...]:
    """One path for all rails as such, then one for each tone."""
    paths = {"idle": "".join(f"M{_x(rail)} 0V{BOTTOM}" for rail in range(len(before)))}
    for rail, (was, becomes) in enumerate(zip(before.values(), after.values(), strict=True)):
        for tone, top, end in ((was, 0, MARK), (becomes, MARK, BOTTOM)):
            if tone:
                name = f"rail {tone}"
                paths[name] = paths.get(name, "") + f"M{_x(rail)} {top}V{end}"
    return tuple(paths.items())


def _cut(steps: list[Step], most: int) -> tuple[Step, ...]:
    """The middle of a long story gives way to one line."""
    if len(steps) <= most:
        return tuple(steps)
    head, tail = steps[: most // 2], steps[-(most - most // 2 - 1) :]
    left = len(steps) - len(head) - len(tail)
    note = Note("…", "t-quiet", f"{left} more moments are not shown")
    return (*head, Step(note, None, ()), *tail)
