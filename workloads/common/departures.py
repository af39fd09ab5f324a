"""Helpers of workloads with played brokers: they rotate topics, and draw departures of brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from harness.generators.generator import Draft
from workloads.common.keys import Keys

SILENCE_S: Final = (0.5, 6.0)
# One op of some thirty is a departure, of three brokers with sessions of two seconds: at more ops
# per second than this hardly ever are all of them there.
RATE_HZ: Final = 15.0
Drawn = Callable[[Random, int], Draft]


@dataclass(frozen=True, slots=True)
class Turns:
    """Topics of one partition each: some are in use at a time, then come the next ones.

    ``alters`` is the weight of the op that is drawn most, ``ops`` of which each topic gets. Of an
    op with another weight the nth comes about when the topic is in use that it is given here.
    """

    keys: Keys
    at_a_time: int
    ops: int
    alters: int

    def number(self, n: int, weight: int) -> int:
        """Number the topic of the nth op of a kind with that weight."""
        turn, place = divmod(n * self.alters // weight + n % self.at_a_time, self.at_a_time)
        return turn // self.ops * self.at_a_time + place

    def name(self, n: int, weight: int = 1) -> str:
        """Name that topic, which is in use from now on."""
        return self.keys.name(self.number(n, weight))

    def retire(self, _: Random, n: int) -> Draft:
        """Delete a topic that is in use no more; look at one as long as there is none."""
        old = self.number(n, 1) - self.at_a_time
        if old < 0:
            return Draft("describe", None, self.name(n))
        return Draft("retire", None, self.keys.named(old))


def departures(brokers: int) -> tuple[Drawn, Drawn, Drawn]:
    """Ops with which a broker stops in good order, dies, or is silent for a while."""

    def restart(rng: Random, _: int) -> Draft:
        return Draft("restart", {"member": rng.randrange(brokers)})

    def crash(rng: Random, _: int) -> Draft:
        return Draft("crash", {"member": rng.randrange(brokers)})

    def silence(rng: Random, _: int) -> Draft:
        for_s = round(rng.uniform(*SILENCE_S), 1)
        return Draft("silence", {"member": rng.randrange(brokers), "for_s": for_s})

    return restart, crash, silence
