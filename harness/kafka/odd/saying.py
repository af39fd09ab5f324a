"""Says odd requests to a node, one after the other, and tells what each was answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from random import Random
from typing import Any, Final

from harness.contracts.environment import Address
from harness.kafka.exchange import exchange
from harness.kafka.odd.bases import MAX_BYTES, OF_QUORUMS, Base, View
from harness.kafka.odd.changes import NoPlaceError, changed
from harness.kafka.odd.controllers import OF_CONTROLLERS
from node.core.messages import FetchRequest, FetchResponse
from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey
from node.wire.api_versions import Negotiated
from node.wire.errors import LocalProtocolError, WireError
from node.wire.network import Network

TIMEOUT_S: Final = 1.0
BASES: Final[Mapping[str, Base]] = {**OF_QUORUMS, **OF_CONTROLLERS}
UNSAID: Final = "not said: "  # what is told of a request that was not sent begins so
UNANSWERED: Final = "no answer: "  # ... that was sent


def draw(rng: Random) -> str:
    """Draw an odd request, in words that ``say`` understands: ``Vote voter_id = most``."""
    return rng.choice(everything())


@cache
def everything() -> tuple[str, ...]:
    """Give all odd requests of a quorum: those to controllers are only said by name."""
    return tuple(
        f"{name} {place} = {value}"
        for name, base in OF_QUORUMS.items()
        for place, value in base.choices()
    )


async def say(words: str, view: View, address: Address, network: Network) -> str:
    """Say an odd request to a node; the names of the errors in its answer, or why there is none.

    It is not sent where there is no connection, or the node's version lacks the place.

    Args:
        words: The request, as ``draw`` gives it.
        view: What is known of the cluster, and who is asked.
        address: Of the node.
        network: The way to it.

    Raises:
        ValueError: The words are no such request.
    """
    name, place, value = parsed(words)
    try:
        connection = await network.connect(
            Endpoint(address.host, address.port), timeout_s=TIMEOUT_S
        )
    except WireError as error:
        return f"{UNSAID}{error}"
    try:
        peer = await connection.negotiate(TIMEOUT_S)
        entity = _entity(name, place, value, view, peer)
    except (WireError, NoPlaceError) as error:
        connection.close()
        return f"{UNSAID}{error}"
    try:
        answer = await connection.request(entity, timeout_s=TIMEOUT_S)
    except LocalProtocolError as error:
        return f"{UNSAID}{error}"
    except WireError as error:
        return f"{UNANSWERED}{error}"
    finally:
        connection.close()
    return ", ".join(dict.fromkeys(_codes(answer)))


def _entity(name: str, place: str, value: str, view: View, peer: Negotiated) -> Any:
    entity = BASES[name].make(view, peer)
    return changed(entity, place, value, own=view.own, leader=view.leader)


def parsed(words: str) -> tuple[str, str, str]:
    """Give the base, the place and the value of an odd request.

    Raises:
        ValueError: The words are no such request.
    """
    name, _, change = words.partition(" ")
    place, equals, value = change.partition(" = ")
    if name not in BASES or not equals:
        raise ValueError(f"no odd request: {words!r}; one is: 'Vote voter_id = most'")
    return name, place, value


def _codes(entity: Any) -> Iterator[str]:
    """Give the names of the errors of an answer, from the outside to the inside."""
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.name == "error_code":
            yield value.name
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part) and not isinstance(part, type):
                yield from _codes(part)


async def snapshot_of(leader: Address, epoch: int, network: Network) -> OffsetAndEpoch | None:
    """Give a snapshot that the leader would have a newcomer fetch; None if it has none to tell."""
    newcomer = FetchRequest(ReplicaKey(-1), epoch, 0, 0, 0, MAX_BYTES)
    try:
        _, answer = await exchange(newcomer, leader, network, timeout_s=TIMEOUT_S, older=True)
    except WireError:
        return None
    return answer.snapshot if isinstance(answer, FetchResponse) else None
