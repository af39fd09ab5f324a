"""The simulated side of ``node.wire.network``: requests travel as objects, through a fabric.

Bodies are handed over as they are, decoded, and quorum requests as the core's own messages: what
encoding them costs is most of a simulation's time, and the codecs have tests of their own. What a
server would refuse before it decodes is refused here too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from kio.static.protocol import RequestPayload, ResponsePayload

from node.core.messages import (
    Error,
    FetchResponse,
    FetchSnapshotResponse,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    Request,
    Response,
)
from node.core.types import Endpoint, VersionRange
from node.sim.door import Door
from node.sim.encoded import EncodedCalls
from node.sim.fabric import Fabric, Flow
from node.wire.api import ApiTable
from node.wire.api_versions import (
    Features,
    Negotiated,
    api_versions_body,
    is_api_versions,
)
from node.wire.connection import CONNECT_TIMEOUT_S
from node.wire.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    RequestTimedOut,
    WireError,
)
from node.wire.network import Ask, Done, ParseRecords, QuorumCaller, WireQuorumCaller
from node.wire.payloads import EncodedRequest, api_schema, decode, encode
from node.wire.quorum.probe import CLIENT_NAME, KRAFT_VERSION_FEATURE

_TICK_S: Final = 1e-9
T = TypeVar("T")
Reject = Callable[[tuple[str, int], str], None]
Raw = Callable[[int, int, bytes, Callable[[bytes], None]], None]  # API key, version, body, answer


class VirtualInbound:
    """A request at the server's side; as ``node.wire.link.InboundRequest``."""

    __slots__ = ("_answer", "_link", "api_key", "body", "client_id", "connection", "version")

    def __init__(
        self,
        link: VirtualLink,
        api_key: int,
        version: int,
        body: Any,
        answer: Callable[[ResponsePayload], None],
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.body = body
        self.client_id: str | None = CLIENT_NAME
        self.connection = link.id
        self._link = link
        self._answer: Callable[[ResponsePayload], None] | None = answer

    @property
    def peer(self) -> tuple[str, int]:
        """The address that it came from."""
        return self._link.peer

    def reply(self, answer: ResponsePayload | bytes, *, then_close: str | None = None) -> None:
        """Answer, once."""
        send, self._answer = self._answer, None
        if send is None:
            return
        if isinstance(answer, bytes):
            answer = decode(api_schema(self.api_key, self.version).response, answer, 0)
        send(answer)
        if then_close is not None:
            self._link.reject(then_close)

    def reject(self, reason: str) -> None:
        """Close the connection instead."""
        if self._answer is not None:
            self._answer = None
            self._link.reject(reason)


class VirtualListener:
    """A listener of a process; see ``Network.listen``."""

    def __init__(  # noqa: PLR0913 - one parameter per thing that it serves
        self,
        fabric: Fabric,
        at: Endpoint,
        handler: Callable[[Any], None],
        ask: Ask,
        apis: ApiTable,
        on_reject: Reject,
        features: Callable[[], Features],
        raw: Raw | None,
        door: Door,
    ) -> None:
        self.at = at
        self.handler = handler
        self.ask = ask
        self.apis = apis
        self.on_reject = on_reject
        self.features = features
        self.raw = raw
        self.door = door
        self.context: Context = copy_context()
        self.links: dict[int, VirtualLink] = {}
        self._fabric = fabric

    @property
    def now_ns(self) -> int:
        """The true time."""
        return self._fabric.loop.now_ns

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.at.port

    async def start(self) -> None:
        """Listen; raises OSError."""
        if self.at in self._fabric.listeners:
            raise OSError(f"{self.at} is in use")
        self._fabric.listeners[self.at] = self

    async def close(self) -> None:
        """Stop listening and close every connection. Idempotent."""
        self.gone()

    def gone(self) -> None:
        """The process has ended: its host tells those that are connected."""
        if self._fabric.listeners.get(self.at) is self:
            del self._fabric.listeners[self.at]
        for link in list(self.links.values()):
            link.reset()

    def answer_probe(self) -> ProbeVersionsResponse:
        """Answer a probe: tell the range of kraft.version that the node supports."""
        levels = self.features().supported.get(KRAFT_VERSION_FEATURE)
        return ProbeVersionsResponse(Error.NONE, None if levels is None else VersionRange(*levels))


class VirtualLink:
    """The server's end of a connection."""

    _waits: tuple[int, int, int] | None = None  # a request: number, API key, since when

    def __init__(self, listener: VirtualListener, connection: VirtualConnection) -> None:
        self.id = connection.id
        self.peer = (connection.source_host, connection.id)
        self.listener = listener
        self.back = Flow(listener.at.host, connection.source_host)
        self._connection = connection

    def take(self, api_key: int, version: int, body: Any, number: int) -> None:
        """Hand a request to the server, unless it would not even decode it."""
        if self.id not in self.listener.links:
            return
        served = self.listener.apis.get(api_key)
        if served is None or version not in served:
            self.reject(f"version {version} of API {api_key} is not served here")
            return
        if is_api_versions(api_key):
            data = api_versions_body(self.listener.apis, version, self.listener.features())
            self._send(number, decode(api_schema(api_key, version).response, data))
            return
        self._waits = number, api_key, self.listener.now_ns
        self.listener.handler(
            VirtualInbound(self, api_key, version, body, lambda answer: self._send(number, answer))
        )

    def take_ask(self, message: Request, number: int) -> None:
        """Hand a replica's request to the core."""
        if self.id not in self.listener.links:
            return
        if isinstance(message, ProbeVersionsRequest):
            self._send(number, (self.listener.answer_probe(), b""))
        else:
            self.listener.ask(
                self.id,
                message,
                lambda response, data: self._send(number, (response, data)),
            )

    def take_bytes(self, api_key: int, version: int, body: bytes, number: int) -> None:
        """Hand an encoded request to a server that reads such by itself, or decode it."""
        if self.id not in self.listener.links:
            return
        if self.listener.raw is not None:
            self._waits = number, api_key, self.listener.now_ns
            self.listener.raw(api_key, version, body, lambda answer: self._send(number, answer))
        elif is_api_versions(api_key):
            apis, features = self.listener.apis, self.listener.features()
            self._send(number, api_versions_body(apis, version, features))
        else:
            request = decode(api_schema(api_key, version).request, body, surplus=True)
            self.take(api_key, version, request, number)

    def versions(self, number: int) -> None:
        """Say what is served."""
        if self.id in self.listener.links:
            self._send(number, Negotiated(self.listener.apis.values()))

    def reject(self, reason: str) -> None:
        """Close because of the peer."""
        if self.id in self.listener.links:
            self.listener.on_reject(self.peer, reason)
            self.reset()

    def reset(self) -> None:
        """Close, and let the other end know."""
        if self.listener.links.pop(self.id, None) is not None:
            connection = self._connection
            connection.fabric.carry(self.back, connection.context, connection.lost, "by the peer")

    def closed(self) -> None:
        """The other end has closed."""
        if self.listener.links.pop(self.id, None) is not None and self._waits is not None:
            _, api_key, since_ns = self._waits
            self.listener.door.hung_up(api_key, since_ns, self.listener.now_ns)

    def _send(self, number: int, answer: Any) -> None:
        if self.id not in self.listener.links:
            return
        connection = self._connection
        self.listener.door.works(self.listener.now_ns)
        if self._waits is not None and self._waits[0] == number:
            _, api_key, since_ns = self._waits
            self._waits = None
            self.listener.door.answers(api_key, since_ns, self.listener.now_ns, answer)
        loss = connection.fabric.answer_loss.get(self.listener.at.host)
        if loss is not None and loss.takes(connection.source_host):
            if loss.resets:
                self.reset()
            return
        connection.fabric.carry(self.back, connection.context, connection.arrived, number, answer)


class VirtualConnection:
    """The caller's end of a connection; a ``Caller`` and a ``QuorumCaller``."""

    def __init__(
        self,
        network: VirtualNetwork,
        endpoint: Endpoint,
        parse_records: ParseRecords | None,
    ) -> None:
        self.fabric: Final = network.fabric
        self.source_host = source_host = network.host
        self.endpoint = endpoint
        self.negotiated: Negotiated | None = None
        self.id: Final[int] = self.fabric.next_connection()
        self._network = network
        self.context: Context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._there = Flow(source_host, endpoint.host)
        self._link: VirtualLink | None = None
        self._parse_records = parse_records
        self._number = 0
        self._done: Callable[[Any], None] | None = None  # of the request in flight
        self._asked = "", 0.0
        self._deadline_s = 0.0  # of the request in flight
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0

    async def open(self, timeout_s: float) -> None:
        """Connect; raises ConnectFailed."""
        fabric = self.fabric
        back = Flow(self.endpoint.host, self.source_host)
        answer: asyncio.Future[VirtualListener | None] = self._loop.create_future()

        def syn() -> None:  # the kernel of the host answers, whatever its processes do
            listener = fabric.listeners.get(self.endpoint)
            link = None
            if listener is not None:
                link = VirtualLink(listener, self)
                listener.links[self.id] = link
            fabric.carry(back, self.context, settle, link)

        def settle(link: VirtualLink | None) -> None:
            if not answer.done():
                self._link = link
                answer.set_result(None if link is None else link.listener)
            elif link is not None:
                self._hang_up(link)

        def give_up() -> None:
            if not answer.done():
                why = f"{self.endpoint}: no answer in {timeout_s} s"
                answer.set_exception(ConnectFailed(why))

        fabric.carry(self._there, Context(), syn)
        timer = self._loop.call_later(timeout_s, give_up)
        try:
            listener = await answer
        finally:
            timer.cancel()
        if listener is None:
            raise ConnectFailed(f"{self.endpoint}: refused")
        self._network.connections[self.id] = self

    # ------------------------------------------------------------------ Caller, QuorumCaller

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        return self._link is not None

    @property
    def takes_bytes_only(self) -> bool:
        """Tell whether the server reads encoded requests by itself, and no others."""
        return self._link is not None and self._link.listener.raw is not None

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is in flight."""
        return self._done is not None

    async def request(
        self, request: RequestPayload | EncodedRequest, timeout_s: float
    ) -> ResponsePayload:
        """Send a request and wait for its answer; errors as ``Connection.request``."""
        if isinstance(request, EncodedRequest):
            schema = request.schema
            body: Any = decode(schema.request, request.body, 0)
        else:
            schema, body = api_schema(request.__api_key__, request.__version__), request

        def send(link: VirtualLink, number: int) -> None:
            self._carry(link, link.take, schema.key, schema.version, body, number)

        return cast("ResponsePayload", await self._exchange(send, str(schema), timeout_s))

    def send(self, request: Request, timeout_s: float, done: Done) -> None:
        """Send a replica's request; see ``QuorumCaller``."""

        def answered(outcome: Any) -> None:
            done(outcome if isinstance(outcome, WireError) else self._response(*outcome))

        link = self._expect(answered, type(request).__name__, timeout_s)
        self._carry(link, link.take_ask, request, self._number)

    def send_bytes(
        self,
        api_key: int,
        version: int,
        body: bytes,
        timeout_s: float,
        done: Callable[[bytes | WireError], None],
    ) -> None:
        """Send a request that is encoded already; ``done`` gets the answer's body, or the error.

        Raises:
            WireError: It cannot be sent; ``done`` will not be called.
        """

        def answered(outcome: Any) -> None:
            done(outcome if isinstance(outcome, bytes | WireError) else encode(outcome))

        link = self._expect(answered, f"version {version} of API {api_key}", timeout_s)
        self._carry(link, link.take_bytes, api_key, version, body, self._number)

    def _response(self, response: Response, data: bytes) -> Response | Exception:
        """A replica's answer with the bytes that belong to it."""
        if isinstance(response, FetchResponse) and response.records and self._parse_records:
            try:
                batches = self._parse_records(data)
            except Exception as error:  # as ``WireQuorumCaller`` has it
                return error
            return replace(response, records=None, batches=batches)
        if isinstance(response, FetchSnapshotResponse):
            return replace(response, chunk=None, data=data)
        return response

    async def negotiate(self, timeout_s: float) -> Negotiated:
        """Ask which versions the peer serves."""

        def send(link: VirtualLink, number: int) -> None:
            self._carry(link, link.versions, number)

        negotiated: Negotiated = await self._exchange(send, "ApiVersions", timeout_s)
        self.negotiated = negotiated
        return negotiated

    def close(self) -> None:
        """Close now; a request in flight ends as Disconnected. Idempotent."""
        self._hang_up(self._link)
        self._fail(Disconnected(f"{self.endpoint}: closed by us"))

    # ------------------------------------------------------------------ from the fabric

    def arrived(self, number: int, answer: Any) -> None:
        """An answer is here; this is called in the process."""
        if number == self._number:
            done, self._done = self._done, None
            if done is not None:
                done(answer)

    def lost(self, why: str) -> None:
        """The other end is gone."""
        self._fail(Disconnected(f"{self.endpoint}: closed {why}"))

    # ------------------------------------------------------------------ inside

    def _carry(self, link: VirtualLink, call: Callable[..., object], *args: Any) -> None:
        self.fabric.carry(self._there, link.listener.context, call, *args)

    async def _exchange(
        self, send: Callable[[VirtualLink, int], None], what: str, timeout_s: float
    ) -> Any:
        waiting: asyncio.Future[Any] = self._loop.create_future()

        def answered(outcome: Any) -> None:
            if waiting.done():
                return
            if isinstance(outcome, WireError):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)

        send(self._expect(answered, what, timeout_s), self._number)
        try:
            return await waiting
        except asyncio.CancelledError:
            self.close()
            raise

    def _expect(self, done: Callable[[Any], None], what: str, timeout_s: float) -> VirtualLink:
        """Expect the answer to the request that is sent next, for ``done``; give its link."""
        link = self._link
        if link is None:
            raise Disconnected(f"{self.endpoint}: the connection is closed")
        if self._done is not None:
            raise LocalProtocolError(f"{self.endpoint}: a request is still in flight")
        self._number += 1
        self._done = done
        self._asked = what, timeout_s
        self._deadline_s = self._loop.time() + timeout_s
        if self._timer is None or self._timer_s > self._deadline_s:
            self._arm()
        return link

    def _arm(self) -> None:
        """One timer for many requests: it goes on where there was another one meanwhile."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = self._deadline_s
        self._timer = self._loop.call_at(self._deadline_s, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        if self._done is None:
            return
        if self._loop.time() < self._deadline_s - _TICK_S:  # times are rounded to it
            self._arm()
            return
        what, timeout_s = self._asked
        self._hang_up(self._link)
        self._fail(RequestTimedOut(f"{self.endpoint}: no answer to {what} in {timeout_s} s"))

    def _hang_up(self, link: VirtualLink | None) -> None:
        """Tell the server of the close, after what was sent before."""
        if link is not None:
            self._carry(link, link.closed)

    def _fail(self, error: WireError) -> None:
        self._link = None
        self._network.connections.pop(self.id, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._settle(error)

    def _settle(self, outcome: Any) -> None:
        """Hand over an answer or an error: to the process that asked, if that lives still."""
        done, self._done = self._done, None
        if done is not None:
            self._loop.call_soon(done, outcome, context=self.context)


class VirtualNetwork:
    """``Network`` of everything that runs on one host."""

    def __init__(self, fabric: Fabric, host: str) -> None:
        self.fabric = fabric
        self.host = host
        self.connections: dict[int, VirtualConnection] = {}
        self.listening: list[VirtualListener] = []
        self.door = Door()

    async def connect(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> VirtualConnection:
        """See ``Network``."""
        _no_tls(tls)
        connection = VirtualConnection(self, endpoint, None)
        await connection.open(timeout_s)
        return connection

    async def connect_to_replica(
        self,
        endpoint: Endpoint,
        parse_records: ParseRecords,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None,
        listener_name: str,
    ) -> QuorumCaller:
        """See ``Network``; a listener with ``raw`` is spoken to in Kafka's protocol."""
        _no_tls(tls)
        connection = VirtualConnection(self, endpoint, parse_records)
        await connection.open(timeout_s)
        if not connection.takes_bytes_only:
            return connection
        try:
            negotiated = await connection.negotiate(timeout_s)
        except BaseException:
            connection.close()
            raise
        calls = EncodedCalls(connection)
        return WireQuorumCaller(calls, negotiated, parse_records, listener_name)

    def listen(  # noqa: PLR0913 - as ``Network.listen``, and one more
        self,
        at: Endpoint,
        handler: Callable[[Any], None],
        *,
        ask: Ask,
        apis: ApiTable,
        on_reject: Reject,
        tls: ssl.SSLContext | None,
        features: Callable[[], Features],
        raw: Raw | None = None,
    ) -> VirtualListener:
        """See ``Network``; ``raw`` takes the encoded requests of ``send_bytes``."""
        _no_tls(tls)
        listener = VirtualListener(
            self.fabric, at, handler, ask, apis, on_reject, features, raw, self.door
        )
        self.listening.append(listener)
        return listener

    def gone(self) -> None:
        """The process has ended, in whatever way: its host closes what it had open."""
        for listener in self.listening:
            listener.gone()
        for connection in list(self.connections.values()):
            connection.close()


def _no_tls(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise LocalProtocolError("there is no TLS in a simulation")
