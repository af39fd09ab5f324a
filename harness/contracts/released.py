"""Bugs that were released and fixed: the contract of what is hunted in releases of a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedBug:
    """A bug that one release of a system has and a later one has not.

    Attributes:
        name: Of the entry, as in ``stuck-observer``.
        source: Where it is reported, and what the report says, in one line.
        affected: A release that has it.
        fixed: The first one that is known to the harness and has not; None: none yet.
        breaks: The invariants of which one must name it.
        setting: Options of the runs, by the names of ``RunSpec``; the swarm draws the others.
        narrowed: The same in words, with the reason; empty: the generic swarm.
        live: Options of runs as processes in which it is seen, too, by the names of ``RunSpec``;
            None: it is not.
        live_breaks: The invariants of which one must name it there; empty: the same.
        known: The finding under which the affected release's anomalies are known, and so counted
            apart (``verdict.Known.finding``); None: they are anomalies like any other.
        cannot: Why it is not hunted, and what that would take; empty: it is.
        missed: Why a hunt does not find it, and what that would take; empty: it does.
    """

    name: str
    source: str
    affected: str
    fixed: str | None
    breaks: tuple[str, ...]
    setting: Mapping[str, Any] = field(default_factory=dict)
    narrowed: str = ""
    live: Mapping[str, Any] | None = None
    live_breaks: tuple[str, ...] = ()
    known: str | None = None
    cannot: str = ""
    missed: str = ""

    @property
    def is_hunted(self) -> bool:
        """Tell whether there are two releases to compare, and nothing speaks against it."""
        return self.fixed is not None and not self.cannot

    @property
    def is_hunted_live(self) -> bool:
        """Tell whether it is also hunted in processes of its releases."""
        return self.fixed is not None and self.live is not None
