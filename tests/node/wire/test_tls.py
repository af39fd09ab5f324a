"""TLS on real sockets: who is let in, who is not, and with which reason."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from node.core.types import Endpoint
from node.wire.api import ApiKey
from node.wire.connection import Connection
from node.wire.errors import ConnectFailed, Disconnected, RemoteProtocolError
from node.wire.payloads import api_schema
from node.wire.server import Limits, Server
from node.wire.structs import build
from node.wire.tls import TlsConfig
from node.wire.tls_session import TlsSession
from tests.support.wire.certificates import Identity, authority
from tests.support.wire.server import (
    DEADLINE_S,
    RawClient,
    Told,
    describe_quorum,
    quorum_answer,
    serving,
    until,
)

CA = authority("krucible test CA")
OTHER_CA = authority("another CA")
NODE = CA.issue("node", "127.0.0.1", "localhost")
CLIENT = CA.issue("client")
STRANGER = OTHER_CA.issue("stranger")
QUESTION = build(api_schema(ApiKey.DESCRIBE_QUORUM, 2).request, topics=())

Scenario = Callable[[Server, Told], Awaitable[None]]


def listener(
    identity: Identity = NODE, auth: str = "none", protocol: str = "TLSv1.2,TLSv1.3"
) -> ssl.SSLContext:
    settings = identity.settings() | CA.trusted() | {"ssl.client.auth": auth}
    settings["ssl.enabled.protocols"] = protocol
    return TlsConfig.of(settings).server_context()


def caller(
    identity: Identity | None = None,
    trusted: Identity = CA,
    protocol: str = "TLSv1.2,TLSv1.3",
    check: str = "https",
) -> ssl.SSLContext:
    settings = {} if identity is None else identity.settings()
    settings |= trusted.trusted()
    settings |= {"ssl.enabled.protocols": protocol, "ssl.endpoint.identification.algorithm": check}
    return TlsConfig.of(settings).client_context()


def with_server(
    scenario: Scenario, context: ssl.SSLContext | None, limits: Limits | None = None
) -> Told:
    """Run it against a server that answers everything; what the server said."""

    async def main() -> Told:
        heard: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, c: heard.append(c))
        async with serving(
            lambda request: request.reply(quorum_answer()), limits, ssl_context=context
        ) as (server, told):
            await scenario(server, told)
            await until(lambda: server.connections == 0)
            assert server.handshakes == 0
        assert heard == []
        return told

    return asyncio.run(main())


async def ask(server: Server, context: ssl.SSLContext | None, host: str = "127.0.0.1") -> None:
    """A request and its answer."""
    endpoint = Endpoint(host, server.port)
    async with await Connection.open(endpoint, ssl_context=context) as connection:
        await connection.negotiate(DEADLINE_S)
        await connection.request(QUESTION, DEADLINE_S)


class RawTls:
    """A client that holds back what it has to say."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._heard, self._says = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._heard, self._says, server_hostname="127.0.0.1")

    async def handshake(self) -> None:
        """Up to the client's last message, which is not yet sent."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self.flush()
                self._heard.write(await loop.sock_recv(self._socket, 2**16))

    async def flush(self, more: bytes = b"") -> None:
        """Send what TLS has to say, and more."""
        await asyncio.get_running_loop().sock_sendall(self._socket, self._says.read() + more)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def asking(context: ssl.SSLContext | None) -> Scenario:
    return lambda server, _: ask(server, context)


# ------------------------------------------------------------------ who is let in


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_client_that_trusts_the_authority_is_answered(protocol: str) -> None:
    context = caller(protocol=protocol)
    assert with_server(asking(context), listener()).rejected == []


def test_both_sides_can_be_asked_for_a_certificate() -> None:
    assert with_server(asking(caller(CLIENT)), listener(auth="required")).rejected == []


@pytest.mark.parametrize("identity", [None, CLIENT])
def test_a_requested_certificate_may_be_missing(identity: Identity | None) -> None:
    assert with_server(asking(caller(identity)), listener(auth="requested")).rejected == []


def test_a_trusted_certificate_need_not_be_a_roots() -> None:
    """Java's trust managers work like that."""
    assert with_server(asking(caller(trusted=NODE)), listener()).rejected == []


def test_host_names_are_not_compared_when_told_so() -> None:
    elsewhere = listener(CA.issue("node", "elsewhere.example"))
    context = caller(check="")
    assert with_server(asking(context), elsewhere).rejected == []


def test_many_requests_and_a_large_answer_come_whole() -> None:
    large = os.urandom(5_000_000)

    async def main() -> None:
        async with serving(lambda request: request.reply(large), ssl_context=listener()) as (
            server,
            told,
        ):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=caller(), limit=2**16
            )
            writer.write(b"".join(describe_quorum(n) for n in range(3)))
            async with asyncio.timeout(DEADLINE_S):
                for n in range(3):
                    head = await reader.readexactly(9)
                    assert head[4:8] == n.to_bytes(4, "big")
                    assert await reader.readexactly(len(large)) == large
            writer.close()
            await writer.wait_closed()
            await until(lambda: server.connections == 0)
            assert told.rejected == []

    asyncio.run(main())


# ------------------------------------------------------------------ who is not


REFUSED_BY_CLIENT = [
    (listener(), caller(trusted=OTHER_CA), "self-signed certificate in certificate chain"),
    (listener(STRANGER), caller(), "unable to get local issuer"),
    (listener(CA.issue("node", "elsewhere.example")), caller(), "IP address mismatch"),
    (listener(CA.issue("node", "127.0.0.1", expired=True)), caller(), "certificate has expired"),
]


@pytest.mark.parametrize(
    ("server_side", "client_side", "client_says"),
    REFUSED_BY_CLIENT,
    ids=["client trusts another CA", "stranger", "other host", "expired"],
)
def test_a_server_that_a_client_does_not_trust(
    server_side: ssl.SSLContext, client_side: ssl.SSLContext, client_says: str
) -> None:
    async def scenario(server: Server, told: Told) -> None:
        with pytest.raises(ConnectFailed, match=f"certificate is refused: .*{client_says}"):
            await ask(server, client_side)
        await until(lambda: told.rejected)

    (reason,) = with_server(scenario, server_side).reasons
    assert "it may not trust this certificate" in reason


def test_a_client_that_says_why_it_does_not_trust() -> None:
    """asyncio's clients do not, Java's do."""

    async def scenario(server: Server, told: Told) -> None:
        client = RawTls(server.port, caller(trusted=OTHER_CA))
        with pytest.raises(ssl.SSLCertVerificationError):
            await client.handshake()
        await client.flush()
        await until(lambda: told.rejected)
        client.close()

    (reason,) = with_server(scenario, listener()).reasons
    assert reason.startswith("in the TLS handshake: ")
    assert reason.endswith("alert unknown ca")


REFUSED_BY_SERVER = [
    (None, "peer did not return a certificate", "certificate required"),
    (STRANGER, "unable to get local issuer", "unknown ca"),
    (CA.issue("client", expired=True), "certificate has expired", "certificate expired"),
]


@pytest.mark.parametrize(
    ("identity", "server_says", "client_says"),
    REFUSED_BY_SERVER,
    ids=["none", "stranger", "expired"],
)
def test_a_client_that_a_server_does_not_trust(
    identity: Identity | None, server_says: str, client_says: str
) -> None:
    """In TLS 1.3 the client hears of it after its side of the handshake."""

    async def scenario(server: Server, told: Told) -> None:
        with pytest.raises((ConnectFailed, Disconnected), match=client_says):
            await ask(server, caller(identity))
        await until(lambda: told.rejected)

    (reason,) = with_server(scenario, listener(auth="required")).reasons
    assert server_says in reason


def test_versions_that_do_not_meet() -> None:
    async def scenario(server: Server, told: Told) -> None:
        with pytest.raises(ConnectFailed, match="protocol version"):
            await ask(server, caller(protocol="TLSv1.2"))
        await until(lambda: told.rejected)

    told = with_server(scenario, listener(protocol="TLSv1.3"))
    assert "unsupported protocol" in told.reasons[0]


def test_a_plaintext_client_at_a_tls_listener() -> None:
    async def scenario(server: Server, told: Told) -> None:
        with pytest.raises(Disconnected):
            await ask(server, None)
        await until(lambda: told.rejected)

    (reason,) = with_server(scenario, listener()).reasons
    assert reason == "the peer speaks plaintext and this listener TLS: use security.protocol SSL"


def test_a_tls_client_at_a_plaintext_listener() -> None:
    async def scenario(server: Server, told: Told) -> None:
        with pytest.raises(ConnectFailed):
            await ask(server, caller())
        await until(lambda: told.rejected)

    (reason,) = with_server(scenario, None).reasons
    assert reason.startswith("the peer speaks TLS and this side plaintext: ")


def test_a_plaintext_client_is_told_when_it_hears_a_tls_alert() -> None:
    """What a Java listener answers to plaintext."""

    async def main() -> None:
        def alert(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(bytes.fromhex("15030300020246"))
            writer.close()

        peer = await asyncio.start_server(alert, "127.0.0.1", 0)
        async with peer:
            endpoint = Endpoint("127.0.0.1", peer.sockets[0].getsockname()[1])
            connection = await Connection.open(endpoint)
            with pytest.raises(RemoteProtocolError, match="speaks TLS"):
                await connection.request(QUESTION, DEADLINE_S)

    asyncio.run(main())


# ------------------------------------------------------------------ bounds


def test_a_handshake_that_takes_too_long_ends() -> None:
    limits = Limits(handshake_timeout_s=0.05)

    async def scenario(server: Server, _: Told) -> None:
        async with RawClient.to(server.port) as silent, RawClient.to(server.port) as slow:
            await slow.send(b"\x16\x03\x01")
            assert await silent.closed()
            assert await slow.closed()

    told = with_server(scenario, listener(), limits)
    assert told.reasons == ["timed out in the TLS handshake"] * 2


def test_a_client_that_gives_up_in_the_handshake() -> None:
    async def scenario(server: Server, _: Told) -> None:
        async with RawClient.to(server.port) as client:
            await client.send(b"\x16\x03\x01\x02\x00\x01")
            client.finish()
            await client.drained()

    told = with_server(scenario, listener())
    assert told.reasons[0].startswith("closed by the peer in the TLS handshake")


def test_a_client_that_only_knocks_is_no_reason() -> None:
    async def scenario(server: Server, _: Told) -> None:
        async with RawClient.to(server.port) as client:
            await until(lambda: server.handshakes == 1)
            client.finish()
            await client.drained()

    assert with_server(scenario, listener()).rejected == []


def test_handshakes_at_a_time_are_counted() -> None:
    limits = Limits(handshakes_max=2)

    async def scenario(server: Server, told: Told) -> None:
        async with RawClient.to(server.port), RawClient.to(server.port):
            await until(lambda: server.handshakes == 2)
            async with RawClient.to(server.port) as third:
                assert await third.closed()
            assert told.reasons == ["more than 2 TLS handshakes at a time"]
        await until(lambda: server.handshakes == 0)
        await ask(server, caller())

    with_server(scenario, listener(), limits)


@pytest.mark.parametrize("at_once", [True, False])
def test_garbage_inside_tls_is_the_peers_fault(at_once: bool) -> None:
    """A record that nobody encrypted, alone or with the end of the handshake."""

    async def scenario(server: Server, told: Told) -> None:
        client = RawTls(server.port, caller())
        await client.handshake()
        if not at_once:
            await client.flush()
            await until(lambda: not server.handshakes)
        await client.flush(b"\x17\x03\x03\x00\x20" + bytes(32))
        await until(lambda: told.rejected)
        client.close()

    (reason,) = with_server(scenario, listener()).reasons
    assert reason.startswith("in TLS: ")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_session_takes_its_bytes_in_any_pieces(size: int) -> None:
    session = TlsSession(listener())
    theirs, ours = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = caller().wrap_bio(theirs, ours, server_hostname="127.0.0.1")
    got = b""

    def pump() -> bytes:
        data, plain = ours.read(), b""
        for at in range(0, len(data), size):
            plain += session.receive(memoryview(data)[at : at + size])
        theirs.write(session.outgoing())
        return plain

    for _ in range(4):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pump()
    assert not session.closed
    client.write(b"hello" * 1000)
    got = pump()
    assert (session.established, got) == (True, b"hello" * 1000)
    theirs.write(session.encrypt(b"answer" * 10_000))
    answer = b""
    while len(answer) < 60_000:
        answer += client.read(2**14)
    assert answer == b"answer" * 10_000
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    pump()
    assert session.closed


def test_no_bytes_make_a_session_fail_in_another_way() -> None:
    rng = Random(595)
    theirs, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = caller().wrap_bio(theirs, hello, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    good = hello.read()
    context = listener()
    refused = 0
    for _ in range(200):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        session = TlsSession(context)
        try:
            assert session.receive(memoryview(data)) == b""
        except RemoteProtocolError:
            refused += 1
        assert not session.established
    assert refused > 10
