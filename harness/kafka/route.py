"""A client's way to the nodes: its connections, who the active controller is, failures as outcomes.

Whether a failure is definite hangs on one question: had a request that may write left? What goes
wrong before, while a connection is made or the controller is looked up, is definite; what goes
wrong after is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from harness.contracts.clients import Outcome
from harness.contracts.environment import Address
from harness.contracts.system import System
from harness.errors import EnvError
from harness.kafka import errors as kafka_errors
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, Error
from node.core.types import Endpoint
from node.driver.apis.serving import NOTHING_WRITTEN
from node.wire import codec
from node.wire.api import ApiKey
from node.wire.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
    WireError,
)
from node.wire.network import Caller, Network
from node.wire.payloads import spoken_versions

REQUEST_TIMEOUT_S = 1.5
CONNECT_TIMEOUT_S = 0.5
OP_TIMEOUT_S = 2.5  # until then an op may find the controller and begin, again where need be
RETRY_S = 0.05
CONTROLLERS = 2  # endpoint type in DescribeCluster (KIP-919)
_WITH_ENDPOINT_TYPE = 1  # the version of DescribeCluster that has one

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The places of the nodes: address by name, name by Kafka node id; and the way to them."""

    addresses: Mapping[str, Address]
    names: Mapping[int, str]
    network: Network
    id: str = ""  # the cluster's own name for itself
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    prefix: str = ""  # of all names that clients make there; a cluster that is not ours has one
    lookouts: tuple[str, ...] = ()  # nodes that answer Metadata; none: all do
    forwarders: tuple[str, ...] = ()  # brokers whose clients have their changes forwarded

    def lookout(self, home: str) -> str:
        """The node at which a client of ``home`` looks at topics: its home, if that answers."""
        if not self.lookouts or home in self.lookouts:
            return home
        return self.lookouts[list(self.addresses).index(home) % len(self.lookouts)]


@runtime_checkable
class SpeaksKafka(Protocol):
    """A system whose nodes take Kafka's requests: a workload may send any of its own."""

    def cluster(self) -> Cluster:
        """Tell where its nodes are."""
        ...


def cluster_of(system: System) -> Cluster:
    """The nodes of a system that speaks Kafka's protocol; raises EnvError of any other."""
    if not isinstance(system, SpeaksKafka):
        raise EnvError(
            f"system {system.name!r} does not speak Kafka's protocol: choose another workload"
        )
    return system.cluster()


class NotController(Outcome):
    """Raised when the node asked was not the active controller and surely did nothing."""

    def __init__(self) -> None:
        super().__init__("not-controller", definite=True)


class Unreachable(Outcome):
    """Raised when an op could not begin: no connection, or nobody knows a controller."""

    def __init__(self, error: str) -> None:
        super().__init__(error, definite=True)


@dataclass(slots=True)
class Route:
    """The connections of one client; ``home`` is the node it belongs to."""

    cluster: Cluster
    home: str
    _connections: dict[str, Caller] = field(default_factory=dict)
    _controller: str | None = None

    def close(self) -> None:
        """Drop all connections. Idempotent."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._controller = None

    async def at_controller(
        self, attempt: Callable[[Caller], Awaitable[T]], deadline_s: float
    ) -> T:
        """Do ``attempt`` at the active controller; again while nothing was done at all.

        No attempt begins after ``deadline_s`` (the event loop's time).

        Raises:
            Outcome: As the last attempt ended.
        """
        loop = asyncio.get_running_loop()
        why: Outcome = Unreachable("no-controller")  # of a deadline in the middle of a look
        while True:
            try:
                return await attempt(await self._to_controller(deadline_s, why))
            except (NotController, Unreachable) as error:
                why = error
                self._controller = None
                if loop.time() + RETRY_S >= deadline_s:
                    raise
            except Outcome:
                self._controller = None  # it may have answered, but ask who leads before the next
                raise
            await asyncio.sleep(RETRY_S)

    async def to_change(self, attempt: Callable[[Caller], Awaitable[T]], deadline_s: float) -> T:
        """Do an administrator's ``attempt``: by way of the home where that forwards (KIP-590).

        Elsewhere, and for what brokers do not forward, see ``at_controller``.

        Raises:
            Outcome: As the last attempt ended.
        """
        if self.home not in self.cluster.forwarders:
            return await self.at_controller(attempt, deadline_s)
        while True:
            try:
                return await attempt(await self.connect(self.home))
            except (NotController, Unreachable):
                if asyncio.get_running_loop().time() + RETRY_S >= deadline_s:
                    raise
            await asyncio.sleep(RETRY_S)

    async def connect(self, node: str) -> Caller:
        """An open connection to a node that answers; raises Unreachable."""
        connection = self._connections.pop(node, None)
        if connection is not None and connection.is_open:
            self._connections[node] = connection
            return connection
        address = self.cluster.addresses[node]
        connection, timeout_s = None, self.cluster.connect_timeout_s
        try:
            connection = await self.cluster.network.connect(
                Endpoint(address.host, address.port), timeout_s=timeout_s
            )
            # A relay accepts for a node that is down; only an answer proves that somebody is there.
            await connection.negotiate(timeout_s)
        except (WireError, asyncio.CancelledError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, WireError):
                raise Unreachable("connect-failed") from error
            raise
        self._connections[node] = connection
        return connection

    async def _to_controller(self, deadline_s: float, why: Outcome) -> Caller:
        """A connection to the controller; raises ``why`` at the deadline."""
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self.connect(await self._find_controller())
        except TimeoutError:
            raise why from None

    async def _find_controller(self) -> str:
        """The node that the home takes for the active controller; it is asked when not known."""
        if self._controller is None:
            connection = await self.connect(self.home)
            try:
                if _knows_controllers(connection):
                    leader_id = await _leader_known_to(connection)
                else:
                    leader_id = await self._leader_that_says_so()
            except Outcome as outcome:  # a question changes nothing
                raise Unreachable(f"no-controller: {outcome.error}") from outcome
            name = None if leader_id is None else self.cluster.names.get(leader_id)
            if name is None:
                raise Unreachable("no-controller")
            self._controller = name
        return self._controller

    async def _leader_that_says_so(self) -> int | None:
        """Ask the home, and then all others at once: who does not lead tells nothing.

        A controller before 3.7 has no DescribeCluster. A broker asks the active controller.
        """
        if (leader_id := await self._leader_seen_by(self.home)) is not None:
            return leader_id
        others = [name for name in self.cluster.addresses if name != self.home]
        asked = [asyncio.ensure_future(self._leader_seen_by(node)) for node in others]
        try:
            for answer in asyncio.as_completed(asked):
                if (leader_id := await answer) is not None:
                    return leader_id
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)  # their connections are dropped
        return None

    async def _leader_seen_by(self, node: str) -> int | None:
        """Tell who leads by the word of a node; None: it says nothing, or cannot be reached."""
        try:
            told = await describe_quorum(await self.connect(node))
        except Outcome:
            return None
        except asyncio.CancelledError:  # its answer may come later, to nobody
            if (connection := self._connections.pop(node, None)) is not None:
                connection.close()
            raise
        return None if told is None else told.leader_id


def _knows_controllers(connection: Caller) -> bool:
    """Tell whether a node can be asked for the active controller (KIP-919); if not known, yes."""
    if connection.negotiated is None:
        return True
    try:
        return connection.negotiated.version(ApiKey.DESCRIBE_CLUSTER) >= _WITH_ENDPOINT_TYPE
    except UnsupportedVersionError:
        return False


async def _leader_known_to(connection: Caller) -> int | None:
    """Tell who leads by the word of that node; a broker asks the active controller itself."""
    response = await request(connection, _WHO_LEADS)
    if int(response.error_code) != ErrorCode.mismatched_endpoint_type:
        return int(response.controller_id)
    answer = await describe_quorum(connection)
    return None if answer is None else answer.leader_id


async def describe_quorum(connection: Caller) -> DescribeQuorumResponse | None:
    """Tell what a leader says of its quorum; None: the node does not lead. Raises Outcome."""
    question = DescribeQuorumRequest()
    version = spoken(connection, ApiKey.DESCRIBE_QUORUM)
    wire = codec.request_to_wire(question, version)
    answer = codec.response_from_wire(await request(connection, wire), question)
    if not isinstance(answer, DescribeQuorumResponse) or answer.error is not Error.NONE:
        return None
    return answer


def spoken(connection: Caller, api_key: ApiKey) -> int:
    """The highest version of a request that both ends speak; of a node not asked, ours.

    Raises:
        Outcome: They share none, or the node does not serve it.
    """
    if connection.negotiated is None:
        return spoken_versions(api_key).max_version
    try:
        return connection.negotiated.version(api_key)
    except UnsupportedVersionError as error:
        label, definite = _LABELS[UnsupportedVersionError]
        raise Outcome(label, definite=definite) from error


_WHO_LEADS = DescribeClusterRequest(
    include_cluster_authorized_operations=False, endpoint_type=i8(CONTROLLERS)
)


async def request(connection: Caller, entity: Any) -> Any:
    """The answer to one request; what goes wrong on the connection is an Outcome."""
    try:
        return await connection.request(entity, timeout_s=REQUEST_TIMEOUT_S)
    except LocalProtocolError:
        raise  # a mistake of ours, not an answer of the system
    except WireError as error:
        label, definite = _LABELS.get(type(error), ("wire", False))
        raise Outcome(label, definite=definite) from error


# What the history says, and whether the request surely did nothing.
_LABELS: Mapping[type[WireError], tuple[str, bool]] = {
    ConnectFailed: ("connect-failed", True),
    UnsupportedVersionError: ("unsupported-version", True),
    RequestTimedOut: ("timed-out", False),
    Disconnected: ("disconnected", False),
    RemoteProtocolError: (kafka_errors.BAD_ANSWER, False),
}


def the_row(rows: Any) -> Any:
    """The one result row of an answer, once it is known to be no error; raises Outcome."""
    if len(rows) != 1:
        raise Outcome(f"bad-answer: {len(rows)} results to one question", definite=False)
    return no_error(rows[0])


def no_error(answer: Any) -> Any:
    """An answer, or a row of one, once it is known to be no error; raises Outcome."""
    code = int(answer.error_code)
    if code == 0:
        return answer
    message = getattr(answer, "error_message", None)
    if code == kafka_errors.NOT_CONTROLLER and message == NOTHING_WRITTEN:
        raise NotController
    info = kafka_errors.describe(code)
    raise Outcome(info.name, definite=info.definite)


def deadline_s() -> float:
    """Give until when an op that begins now may make its attempts, by the event loop's clock."""
    return asyncio.get_running_loop().time() + OP_TIMEOUT_S
