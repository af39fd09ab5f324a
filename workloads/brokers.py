"""``brokers``: registrations, heartbeats and shutdowns of brokers, which the clients play.

All clients speak for the same few brokers, so that several incarnations of one claim its id. Each
broker is left in silence for a while again and again, and so fenced.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from harness import seeds
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, each_thread, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast, PlayedBroker, committed_offset, heartbeat, register
from harness.kafka.route import Cluster, Route, cluster_of, deadline_s
from harness.kafka.topics import create_by_hand
from harness.registry import workloads
from harness.spec import RunSpec
from node.log.meta_properties import random_id

BROKERS = 3
OPS_PER_TURN = 40  # of a kind; in each turn one of the brokers is left alone
TOPIC_PREFIX = (
    "register-broker-"  # topics of this name are the clients' own affair, see ``effects``
)
TURNED_AWAY = frozenset(
    {"duplicate-broker-registration", "stale-broker-epoch", "broker-id-not-registered"}
)
HOW = {
    "heartbeat": ("caught-up", "caught-up", "caught-up", "behind", "old"),
    "register": ("new", "new", "same"),
}


@workloads.register(
    "brokers", WorkloadTraits(prefixed=True, plays_brokers=True, refusals=TURNED_AWAY)
)
def brokers(spec: RunSpec) -> Workload:
    """Play brokers that register, fall silent and stop; judge what the controller tells them."""

    def op(f: str) -> Any:
        def make(rng: Random, n: int) -> Draft:
            silent = n // OPS_PER_TURN % (BROKERS + 1)
            seat = rng.choice([s for s in range(BROKERS) if s != silent])
            return Draft(f, {"how": rng.choice(HOW.get(f, ("plain",)))}, f"b{seat}")

        return make

    def revive(_: Random, n: int) -> Draft | None:
        return Draft("revive", {}, f"b{n}") if n < BROKERS else None

    def client(system: System) -> Client:
        cast = Cast(seeds.rng(spec.seed, "brokers"))
        return BrokerOps(_Shared(cluster_of(system), cast))

    return Workload(
        client=client,
        generator=mix(
            op("heartbeat"),
            op("register"),
            op("fence"),
            op("shut-down"),
            op("lead"),
            weights=(24, 3, 1, 2, 1),
        ),
        final_generator=each_thread(revive),
        checkers=("brokers", "consensus", "observers"),
    )


@dataclass(slots=True)
class Seat:
    """A broker id: who has it as far as anybody was told, and the epoch of the one before."""

    broker: PlayedBroker
    before: int | None = None


@dataclass(slots=True)
class _Shared:
    """The common state of all clients of a run."""

    cluster: Cluster
    cast: Cast
    seats: tuple[Seat, ...] = field(init=False)
    topics: int = 0

    def __post_init__(self) -> None:
        self.seats = tuple(Seat(self.cast.another()) for _ in range(BROKERS))


class BrokerOps:
    """Speaks for the brokers."""

    def __init__(self, shared: _Shared, home: str = "") -> None:
        self._shared = shared
        self._route = Route(shared.cluster, home)

    async def open(self, node: str) -> BrokerOps:
        """A client that finds the controller by way of ``node``."""
        return BrokerOps(self._shared, node)

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op; the completion tells which incarnation was spoken for, and its epoch."""
        place = int((op.key or "b0").removeprefix("b"))
        seat, told, by_s = self._shared.seats[place], dict(op.value or {}), deadline_s()
        try:
            match op.f:
                case "register":
                    await self._register(seat, told, by_s)
                case "heartbeat" | "fence" | "shut-down":
                    await self._heartbeat(seat, op.f, told, by_s)
                case "lead":
                    await self._lead(place, by_s)
                case "revive":
                    await self._revive(seat, told, by_s)
                case _:
                    raise AssertionError(f"brokers has no op {op.f!r}")
        except Outcome as outcome:
            type_ = "fail" if outcome.definite else "info"
            return op.with_(type=type_, value=told, error=outcome.error)
        return op.with_(type="ok", value=told)

    async def _register(self, seat: Seat, told: dict[str, Any], by_s: float) -> None:
        """Register the incarnation again, or the next one; ``told`` gets its epoch."""
        who = replace(seat.broker)
        if told.get("how") == "new":
            who.incarnation = random_id(self._shared.cast.rng)
        told |= {"broker": who.id, "incarnation": who.incarnation.hex}
        epoch = await register(self._route, who, by_s, previous_epoch=seat.broker.epoch or -1)
        told["epoch"] = epoch
        last = seat.broker.epoch
        if last is None or epoch > last:
            seat.broker, seat.before = who, last

    async def _heartbeat(self, seat: Seat, f: str, told: dict[str, Any], by_s: float) -> None:
        """Say that it lives; ``told`` gets what was said and answered."""
        try:
            who, offset = await self._speaker(seat, told.get("how", ""), by_s)
        except Outcome as outcome:  # no heartbeat was sent
            raise Outcome(f"before: {outcome.error}", definite=True) from outcome
        told |= {"broker": who.id, "epoch": who.epoch, "offset": offset}
        beat = await heartbeat(
            self._route,
            who,
            offset,
            by_s,
            want_fence=f == "fence",
            want_shut_down=f == "shut-down",
        )
        told |= {
            "caught_up": beat.caught_up,
            "fenced": beat.fenced,
            "shut_down": beat.shut_down,
        }

    async def _speaker(self, seat: Seat, how: str, by_s: float) -> tuple[PlayedBroker, int]:
        """Tell who is to send a heartbeat, registered if need be, and the offset that it tells."""
        if seat.broker.epoch is None:
            await self._register(seat, {}, by_s)
        who = replace(seat.broker)
        if how == "old" and seat.before is not None:
            who.epoch = seat.before
        if how == "behind":
            return who, (who.epoch or 0) - 1
        return who, await committed_offset(self._route, by_s)

    async def _lead(self, place: int, by_s: float) -> None:
        """Make a topic that the broker leads, if it is in service."""
        ids = [seat.broker.id for seat in self._shared.seats]
        self._shared.topics += 1
        name = f"{TOPIC_PREFIX}{self._shared.topics}"
        await create_by_hand(self._route, name, ids[place:] + ids[:place], by_s)

    async def _revive(self, seat: Seat, told: dict[str, Any], by_s: float) -> None:
        """One heartbeat that wants to be let in, by whoever has the id now."""
        try:
            await self._heartbeat(seat, "heartbeat", told, by_s)
        except Outcome as outcome:
            if outcome.error != "stale-broker-epoch":
                raise
            await self._register(seat, told | {"how": "new"}, by_s)
            await self._heartbeat(seat, "heartbeat", told, by_s)
