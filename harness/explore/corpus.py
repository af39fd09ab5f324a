"""The corpus: the runs that showed something new, and which of them to go on from.

A run is worth the more, the rarer its features are among all runs so far, and the less often it was
gone on from. Source: power schedules of AFLFast (CCS 2016).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from harness.explore.features import Seen
from harness.shrink.moves import Candidate

RARE_MAX = 4  # runs that show a feature, beyond which it is worth nothing any more
ENTRIES_MAX = 1_000  # runs that are kept; the least worth is dropped


@dataclass(slots=True, eq=False)
class Entry:
    """A run that is kept."""

    candidate: Candidate
    moments: Seen  # its features that were new or rare, with the ms since the schedule's start
    chosen: int = 0  # how often it was gone on from


@dataclass(slots=True)
class Corpus:
    """All features seen so far, each with the number of runs that showed it, and what is kept."""

    counts: Counter[str] = field(default_factory=Counter)
    entries: list[Entry] = field(default_factory=list)
    runs: int = 0

    def learn(self, candidate: Candidate, seen: Seen) -> int:
        """Take a run in, and keep it if it showed anything new; gives the number of new features.

        ``candidate`` is data, so that it can be played again, or changed.
        """
        self.runs += 1
        new = sum(feature not in self.counts for feature in seen)
        self.counts.update(seen.keys())
        if new:
            rare = {name: at for name, at in seen.items() if self.may_be_rare(name)}
            self.entries.append(Entry(candidate, rare))
            if len(self.entries) > ENTRIES_MAX:
                self.entries.remove(min(self.entries, key=self.worth))
        return new

    def choose(self, rng: Random) -> Entry:
        """Draw an entry, each as likely as it is worth; raises IndexError when there is none."""
        weights = [self.worth(entry) for entry in self.entries]
        if not any(weights):
            return rng.choice(self.entries)
        entry = rng.choices(self.entries, weights)[0]
        entry.chosen += 1
        return entry

    def worth(self, entry: Entry) -> float:
        """Tell what an entry is worth."""
        return sum(1 / self.counts[name] for name in self.rare(entry)) / (1 + entry.chosen)

    def rare(self, entry: Entry) -> Iterator[str]:
        """List the features of an entry that are rare still."""
        return filter(self.may_be_rare, entry.moments)

    def may_be_rare(self, feature: str) -> bool:
        """Tell whether so few runs have shown a feature that it is rare, or new."""
        return self.counts[feature] <= RARE_MAX
