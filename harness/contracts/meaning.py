"""The meaning of an invariant in words; whoever judges it says so when it registers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """An invariant in words, for people who run Kafka and know no proofs of Raft.

    ``name`` is that of its anomalies ("S3"). ``promise`` and ``why`` are whole sentences: what
    holds, and what users of Kafka lose when it does not. ``source`` names KIPs, papers, classes and
    issues, with "; " between. ``title`` is the promise in two or three words ("vote durability"),
    empty where the name has words itself ("lost-write").
    ``seen_as`` is the invariant whose checks find a break of this one, where it has none itself.
    """

    name: str
    promise: str
    why: str
    source: str
    title: str = ""
    seen_as: str | None = None

    @property
    def full_name(self) -> str:
        """The name with its title: ``S3 vote durability``."""
        return f"{self.name} {self.title}".rstrip()
