"""Played brokers that live on by themselves: each registers, and sends heartbeats while it may.

Clients share one fleet: it lives while any of them is open. See ``harness.kafka.broker``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from harness.contracts.clients import Outcome
from harness.kafka.broker import (
    NO_EPOCH,
    Cast,
    PlayedBroker,
    committed_offset,
    heartbeat,
    register,
)
from harness.kafka.route import Cluster, Route, deadline_s
from node.log.meta_properties import random_id

PAUSE_S = 0.05  # between heartbeats of a broker that waits to be let in, or go
RETRY_S = 0.2  # after a failure: a new incarnation must wait until the old one's session is over


@dataclass(slots=True)
class Member:
    """A broker of the fleet, and what has become of it as far as it was told."""

    broker: PlayedBroker
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fenced: bool = True
    before: int = -1  # epoch of the incarnation before this one, which stopped in good order
    silent_until_s: float = 0.0  # by the event loop's clock
    behind_until_s: float = 0.0  # likewise: it has not read that it is registered


class Fleet:
    """A number of played brokers; each tries the nodes in turn until it finds the controller.

    A new incarnation takes up to ``reading_s`` until it has read that it is registered.
    """

    def __init__(
        self,
        cluster: Cluster,
        cast: Cast,
        size: int,
        heartbeat_s: float,
        *,
        disks: int = 1,
        reading_s: float = 0.0,
    ) -> None:
        self.members = tuple(Member(cast.another(disks)) for _ in range(size))
        self._cluster = cluster
        self._rng = cast.rng
        self._heartbeat_s = heartbeat_s
        self._reading_s = reading_s
        self._users = 0
        self._lives: list[asyncio.Task[None]] = []

    @property
    def ids(self) -> tuple[int, ...]:
        """Give the ids of all brokers of the fleet."""
        return tuple(member.broker.id for member in self.members)

    @property
    def is_registered(self) -> bool:
        """Tell whether each broker has been registered, in this incarnation."""
        return all(member.broker.epoch is not None for member in self.members)

    def member(self, broker_id: int) -> Member | None:
        """The broker of that id; None when it is none of the fleet's."""
        return next((m for m in self.members if m.broker.id == broker_id), None)

    # ------------------------------------------------------------------ its life

    def enter(self) -> None:
        """Count one more client, and start the brokers for the first one."""
        self._users += 1
        if not self._lives:
            homes = tuple(self._cluster.addresses)
            self._lives = [
                asyncio.create_task(self._live(member, homes[i % len(homes) :] + homes))
                for i, member in enumerate(self.members)
            ]

    async def leave(self) -> None:
        """Count one client less, and stop the brokers after the last one."""
        self._users -= 1
        if self._users == 0:
            lives, self._lives = self._lives, []
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)

    async def until_serving(self, timeout_s: float) -> bool:
        """Wait until all brokers were let in; False when they were not in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while any(member.fenced for member in self.members):
            if loop.time() >= deadline_s:
                return False
            await asyncio.sleep(PAUSE_S)
        return True

    async def _live(self, member: Member, homes: Sequence[str]) -> None:
        """Register a broker and send its heartbeats, until cancelled."""
        loop = asyncio.get_running_loop()
        for turn in count():
            route = Route(self._cluster, homes[turn % len(homes)])
            try:
                while True:
                    if (silence_s := member.silent_until_s - loop.time()) > 0:
                        await asyncio.sleep(silence_s)
                    async with member.lock:
                        await self._beat(member, route)
                    await asyncio.sleep(PAUSE_S if member.fenced else self._heartbeat_s)
            except Outcome:
                member.fenced = True
            finally:
                route.close()
            await asyncio.sleep(RETRY_S)

    async def _beat(self, member: Member, route: Route) -> None:
        """Register if need be, then say that it lives."""
        by_s, loop = deadline_s(), asyncio.get_running_loop()
        epoch = member.broker.epoch
        if epoch is None:
            epoch = await register(route, member.broker, by_s, previous_epoch=member.before)
            if self._reading_s:
                member.behind_until_s = loop.time() + self._rng.uniform(0.0, self._reading_s)
        offset = await committed_offset(route, by_s)
        if loop.time() < member.behind_until_s:
            offset = min(offset, epoch - 1)
        member.fenced = (await heartbeat(route, member.broker, offset, by_s)).fenced

    # ------------------------------------------------------------------ restarts

    async def restart(self, index: int, route: Route, by_s: float) -> int:
        """Stop a broker in good order; its next incarnation registers by and by. Its last epoch.

        Raises:
            Outcome: It was not let go; nobody knows whether it still is.
        """
        member = self.members[index]
        async with member.lock:
            old = member.broker.epoch
            if old is None:
                raise Outcome("not-registered", definite=True)
            await self._stop(member, route, by_s)
            member.before, member.fenced = old, True
            member.broker.restart(self._rng)
            return old

    async def crash(self, index: int) -> int | None:
        """Have a broker die; its next incarnation registers when it is let. Its last epoch."""
        member = self.members[index]
        async with member.lock:
            old = member.broker.epoch
            member.before, member.fenced = NO_EPOCH, True
            member.broker.restart(self._rng, unclean=True)
            return old

    # ------------------------------------------------------------------ disks

    def fail_disk(self, index: int, place: int) -> tuple[int, int | None, UUID]:
        """Have a disk of a broker fail; the controller hears of it with the next heartbeat.

        Gives whose it is, with the epoch of its registration, and the disk.

        Raises:
            Outcome: It is the last one that works, without which the broker would end, or none.
        """
        broker = self.members[index].broker
        disk = broker.directories[place]
        if broker.working == (disk,):
            raise Outcome("last-disk", definite=True)
        if disk in broker.failed:
            raise Outcome("has-failed", definite=True)
        broker.failed += (disk,)
        return broker.id, broker.epoch, disk

    def cordon(self, index: int, places: Sequence[int]) -> tuple[UUID, ...]:
        """Have a broker tell which of its disks get no new replicas; no others (KIP-1066)."""
        broker = self.members[index].broker
        broker.cordoned = tuple(broker.directories[place] for place in places)
        return broker.cordoned

    async def mend_disks(self, index: int) -> int | None:
        """Have a broker die and come back with all disks that had failed. Its last epoch."""
        epoch = await self.crash(index)
        self.members[index].broker.failed = ()
        return epoch

    async def replace_disk(self, index: int, place: int) -> int | None:
        """Have a broker die and come back with an empty disk in the place of another.

        Disks that had failed are there again. Gives its last epoch.
        """
        epoch = await self.mend_disks(index)
        broker = self.members[index].broker
        disks = list(broker.directories)
        disks[place] = random_id(self._rng)
        broker.directories = tuple(disks)
        return epoch

    # ------------------------------------------------------------------ silence

    def silence(self, index: int, for_s: float) -> None:
        """Have a broker send nothing for a while; it lives on and is the same afterwards."""
        self.members[index].silent_until_s = asyncio.get_running_loop().time() + for_s

    async def _stop(self, member: Member, route: Route, by_s: float) -> None:
        """Ask to stop until the controller lets it; the others hear of it in the meantime."""
        loop = asyncio.get_running_loop()
        while loop.time() < by_s:
            offset = await committed_offset(route, by_s)
            beat = await heartbeat(route, member.broker, offset, by_s, want_shut_down=True)
            if beat.shut_down:
                return
            await asyncio.sleep(PAUSE_S)
        raise Outcome("not-let-go", definite=True)
