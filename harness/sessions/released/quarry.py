"""Says which bugs of releases are hunted, and with which options a seed is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.contracts.released import ReleasedBug
from harness.registry import released_bugs, systems
from harness.sessions.swarm import draw
from harness.spec import RunSpec

ARM: Final = "releases"
LIVE_ARM: Final = "live-releases"
FIRST: Final = 1  # the first seed


@dataclass(frozen=True, slots=True)
class Quarry:
    """A released bug, and the system whose it is."""

    system: str
    bug: ReleasedBug

    def spec(self, seed: int, release: str) -> RunSpec:
        """Draw the options of a seed, as for the release with the bug, with a release in it."""
        setting, named = dict(self.bug.setting), systems.traits(self.system).release
        settings = {**setting.pop("settings", {}), named: self.bug.affected}
        pinned = {"system": self.system, "stop_at": self.bug.breaks, "settings": settings}
        drawn = draw(seed, {**setting, **pinned})
        return replace(drawn, settings={**drawn.settings, named: release})

    def live_spec(self, seed: int, release: str) -> RunSpec:
        """Give the options of a run as processes, with a release in it."""
        assert self.bug.live is not None, "hunted live"  # noqa: S101
        setting = dict(self.bug.live)
        settings = {**setting.pop("settings", {}), systems.traits(self.system).release: release}
        return RunSpec(seed=seed, system=self.system, settings=settings, **setting)

    def missing(self) -> str | None:
        """Say in one line what this host has not, to run its releases; None: nothing."""
        for release in filter(None, (self.bug.affected, self.bug.fixed)):
            spec = self.spec(FIRST, release)
            reason = systems.traits(self.system).of(spec).missing()
            if reason is not None:
                return reason
        return None


def quarries(only: Sequence[str] = (), *, live: bool = False) -> list[Quarry]:
    """The bugs that are hunted, all or those of these names; ``live``: as processes."""
    return [
        Quarry(system, bug)
        for system, bug in released_bugs()
        if (bug.is_hunted_live if live else bug.is_hunted) and (not only or bug.name in only)
    ]
