"""The relay: one process that carries all TCP traffic between local nodes and can cut any link.

Every node advertises an address of the relay and connects from an address of its own, or is known
by the process that holds the socket, so the relay knows of every connection which directed links it
rides on: a connection that ``a`` opened to ``b`` sends its requests over ``(a, b)`` and its replies
over ``(b, a)``. While a link is cut nothing passes over it: no bytes, no end of stream, no reset.
What was sent is kept (by the kernel, whose full buffers push back on the sender) and flows when the
link heals, as TCP does after a partition. A connection opened over a cut link is accepted and then
hears nothing.

A one-way cut is a stronger adversary here than a packet filter: a connection opened against the
cut's direction still gets its requests through, and only the replies are held.

Run as ``python -m harness.envs.links.relay``; it obeys JSON lines on stdin, answers each on stdout,
and ends after a ``bye``, or when stdin closes: the harness is dead then, and the run's watchdog
heals.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import resource
import socket
import struct
import sys
import termios
from collections.abc import Callable
from typing import Any

from harness.envs.links.socket_owner import Owners
from harness.healing.journal import RUN_VARIABLE

CHUNK_BYTES = 64 * 1024  # read at once, and the most that is kept of one direction
OTHER = "other"  # the source of connections that are nobody's
_BACKLOG = 1024
_SWEEP_S = 0.5
_TCP_CLOSE, _TCP_CLOSE_WAIT = 7, 8  # states of the kernel's tcp_info: the peer is done
_IP_BIND_ADDRESS_NO_PORT = 24  # choose the port at connect: no early bind uses one up


class Link:
    """One directed link: whether it is cut, what rides on it, and its counters."""

    def __init__(self, source: str, destination: str) -> None:
        self.source = source
        self.destination = destination
        self.held = False
        self.flows: set[Flow] = set()
        self.blocked: set[Connection] = set()
        self.connections = 0
        self.bytes = 0
        self.held_bytes = 0
        self.blocked_connects = 0

    def cut(self) -> None:
        """Stop everything on this link; idempotent."""
        if not self.held:
            self.held = True
            for flow in self.flows:
                flow.stop()

    def heal(self) -> None:
        """Send on what was held back, then let everything else through; idempotent."""
        if not self.held:
            return
        self.held = False
        for flow in list(self.flows):
            self.held_bytes += flow.kept_bytes()
            flow.resume()
        for connection in list(self.blocked):
            self.drop_blocked(connection)
            connection.connect()

    def drop_blocked(self, connection: Connection) -> None:
        """Forget a connection that waits for the link, counting what it had sent."""
        self.blocked.discard(connection)
        self.held_bytes += unread_bytes(connection.near)

    def stats(self) -> dict[str, int]:
        """Counters since the start; ``open`` and ``blocked`` connections are those at present."""
        held_now = 0
        if self.held:
            held_now = sum(flow.kept_bytes() for flow in self.flows)
            held_now += sum(unread_bytes(c.near) for c in self.blocked)
        return {
            "connections": self.connections,
            "open": len(self.flows),
            "blocked": len(self.blocked),
            "bytes": self.bytes,
            "held_bytes": self.held_bytes + held_now,
            "blocked_connects": self.blocked_connects,
        }


class Flow:
    """One direction of a connection: from ``inlet`` to ``outlet``, at most one chunk kept."""

    def __init__(
        self, connection: Connection, link: Link, inlet: socket.socket, outlet: socket.socket
    ) -> None:
        self._connection = connection
        self._loop = connection.loop
        self.link = link
        self._inlet = inlet
        self._outlet = outlet
        self._pending = memoryview(b"")
        self._ended = False  # the inlet said it will send no more
        self._failed = False  # the inlet's peer is gone
        self.finished = False  # ... and the outlet was told
        link.flows.add(self)

    def resume(self) -> None:
        """Go on where it stopped, unless the link is cut."""
        if self.link.held or self.finished:
            return
        if self._failed:
            self._connection.abort()
        elif self._pending:
            self._loop.add_writer(self._outlet, self._flush)
        elif self._ended:
            self._finish()
        else:
            self._loop.add_reader(self._inlet, self._read)

    def stop(self) -> None:
        """Touch neither socket until resumed."""
        self._loop.remove_reader(self._inlet)
        self._loop.remove_writer(self._outlet)

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self.link.flows.discard(self)

    def fail(self) -> None:
        """The inlet's peer is gone: tell the outlet's, as soon as the link lets it through."""
        self.stop()
        self._failed = True
        self.resume()

    def kept_bytes(self) -> int:
        """Bytes received from the sender and not passed on."""
        return len(self._pending) + unread_bytes(self._inlet)

    def _read(self) -> None:
        try:
            data = self._inlet.recv(CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.fail()
            return
        if data:
            self._pending = memoryview(data)
            self._flush(reading=True)
        else:
            self._loop.remove_reader(self._inlet)
            self._ended = True
            self._finish()

    def _flush(self, *, reading: bool = False) -> None:
        try:
            sent = self._outlet.send(self._pending)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._connection.lost(self._outlet)
            return
        self.link.bytes += sent
        self._pending = self._pending[sent:]
        if self._pending and reading:
            self._loop.remove_reader(self._inlet)
            self._loop.add_writer(self._outlet, self._flush)
        elif not self._pending and not reading:
            self._loop.remove_writer(self._outlet)
            self._loop.add_reader(self._inlet, self._read)

    def _finish(self) -> None:
        self.finished = True
        with contextlib.suppress(OSError):  # a peer that is gone needs no farewell
            self._outlet.shutdown(socket.SHUT_WR)
        self._connection.flow_finished()


class Connection:
    """A connection accepted from ``near`` (its opener) and made to ``far``."""

    def __init__(self, relay: Relay, near: socket.socket, source: str, destination: str) -> None:
        self._relay = relay
        self.loop = relay.loop
        self.near = near
        self._source = source
        self._destination = destination
        self._requests = relay.link(source, destination)
        self._replies = relay.link(destination, source)
        self._far: socket.socket | None = None
        self._flows: tuple[Flow, ...] = ()

    def open(self) -> None:
        """Connect onward, or wait for the link to heal."""
        self._requests.connections += 1
        self._relay.connections.add(self)
        if self._requests.held:
            self._requests.blocked_connects += 1
            self._requests.blocked.add(self)
            self._relay.sweep_soon()
        else:
            self.connect()

    def connect(self) -> None:
        """Begin to connect onward; data flows once that is done."""
        self._far = far = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        _tune(far)
        try:
            self._relay.bind_outgoing(far, self._source)
            result = far.connect_ex(self._relay.target(self._destination))
        except OSError as error:
            result = error.errno or errno.EIO
        if result in (0, errno.EINPROGRESS):
            self.loop.add_writer(far, self._connected)
            self._relay.sweep_soon()
        else:
            self._begin(failed=True)

    def _connected(self) -> None:
        assert self._far is not None  # noqa: S101 - only called once connect() made it
        self.loop.remove_writer(self._far)
        self._begin(failed=self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0)

    def _begin(self, *, failed: bool) -> None:
        assert self._far is not None  # noqa: S101
        requests = Flow(self, self._requests, self.near, self._far)
        replies = Flow(self, self._replies, self._far, self.near)
        self._flows = (requests, replies)
        if failed:
            replies.fail()  # a refusal is an answer: it travels over the link of the replies
        else:
            for flow in self._flows:
                flow.resume()

    def lost(self, end: socket.socket) -> None:
        """One end does not take data any more: stop sending to it, and tell the other one."""
        requests, replies = self._flows
        (requests if end is self._far else replies).stop()
        (replies if end is self._far else requests).fail()

    def flow_finished(self) -> None:
        """One direction is done; the connection is when both are."""
        if all(flow.finished for flow in self._flows):
            self._close()

    def abort(self) -> None:
        """Reset both ends."""
        for end in self._ends():
            # Linger for no time: close sends a reset, so that the peer hears of it at once.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._close()

    def is_waiting(self) -> bool:
        """Tell whether nobody reads from its opener, so that the opener's close would go unseen."""
        return not self._flows

    def is_abandoned(self) -> bool:
        """Tell whether the connection's opener has closed it already."""
        return _tcp_state(self.near) in (_TCP_CLOSE, _TCP_CLOSE_WAIT)

    def give_up(self) -> None:
        """Drop a connection that waits; what it sent is counted as held back."""
        if self in self._requests.blocked:
            self._requests.drop_blocked(self)
        self.abort()

    def _close(self) -> None:
        for flow in self._flows:
            flow.close()
        for end in self._ends():
            self.loop.remove_reader(end)
            self.loop.remove_writer(end)
            end.close()
        self._relay.connections.discard(self)

    def _ends(self) -> list[socket.socket]:
        return [end for end in (self.near, self._far) if end is not None and end.fileno() >= 0]


class Relay:
    """All listeners, links and connections of one run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.connections: set[Connection] = set()
        self._links: dict[tuple[str, str], Link] = {}
        self._targets: dict[str, tuple[str, int]] = {}
        self._names: dict[str, str] = {}  # source address -> who it is
        self._outgoing: dict[str, str] = {}  # who -> the address the relay connects from for it
        self._listeners: dict[str, socket.socket] = {}  # by node
        self._sweeping = False
        self._owners = Owners(os.environ.get(RUN_VARIABLE, ""))

    # ---- commands: each takes JSON and returns JSON

    def configure(self, names: dict[str, str], outgoing: dict[str, str]) -> None:
        """Say who connects from which address, and which one the relay uses on its behalf."""
        self._names = names
        self._outgoing = outgoing

    def listen(self, node: str, listen: list[Any], target: list[Any]) -> None:
        """Open a node's advertised address and carry what arrives there to the node.

        The one that it had before, if any, is closed.
        """
        self._targets[node] = (target[0], target[1])
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((listen[0], listen[1]))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        before = self._listeners.pop(node, None)
        if before is not None:
            self.loop.remove_reader(before)
            before.close()
        self._listeners[node] = listener
        self.loop.add_reader(listener, self._accept, listener, node)

    def cut(self, links: list[list[str]]) -> None:
        """Cut directed links."""
        for source, destination in links:
            self.link(source, destination).cut()

    def heal(self, links: list[list[str]] | None) -> None:
        """Heal directed links, or all of them."""
        chosen = self._links.values() if links is None else [self.link(a, b) for a, b in links]
        for link in list(chosen):
            link.heal()

    def stats(self) -> list[dict[str, Any]]:
        """The counters of every link that was ever used or cut."""
        return [
            {"link": [link.source, link.destination], **link.stats()}
            for link in self._links.values()
        ]

    # ---- what connections need

    def link(self, source: str, destination: str) -> Link:
        """The directed link between two names."""
        key = (source, destination)
        if key not in self._links:
            self._links[key] = Link(source, destination)
        return self._links[key]

    def target(self, node: str) -> tuple[str, int]:
        """Give the host and port that the node itself listens on."""
        return self._targets[node]

    def bind_outgoing(self, sock: socket.socket, source: str) -> None:
        """Connect from the source's advertised address, so that the node can tell its peers."""
        if source in self._outgoing:
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((self._outgoing[source], 0))

    def sweep_soon(self) -> None:
        """Look after connections that wait, until none does."""
        if not self._sweeping:
            self._sweeping = True
            self.loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Drop waiting connections whose opener has gone: else a long cut would pile them up."""
        waiting = [c for c in self.connections if c.is_waiting()]
        for connection in waiting:
            if connection.is_abandoned():
                connection.give_up()
        self._sweeping = False
        if waiting:
            self.sweep_soon()

    def _accept(self, listener: socket.socket, node: str) -> None:
        try:
            near, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # Out of descriptors: stop accepting for a moment instead of spinning.
            print(f"relay: cannot accept for {node}: {error}", file=sys.stderr, flush=True)  # noqa: T201
            self.loop.remove_reader(listener)
            self.loop.call_later(0.1, self._accept_again, listener, node)
            return
        near.setblocking(False)
        _tune(near)
        source = self._names.get(peer[0]) or self._owners.node_at(*peer) or OTHER
        Connection(self, near, source, node).open()

    def _accept_again(self, listener: socket.socket, node: str) -> None:
        if listener is self._listeners.get(node):  # it has not moved meanwhile
            self.loop.add_reader(listener, self._accept, listener, node)


def unread_bytes(sock: socket.socket) -> int:
    """Bytes the kernel has received on a socket and nobody has read."""
    if sock.fileno() < 0:
        return 0
    count: int = struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, b"\0\0\0\0"))[0]
    return count


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _tcp_state(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


# --------------------------------------------------------------------------- the process


async def serve() -> None:
    """Obey commands until the harness says goodbye or stdin ends."""
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    commands: dict[str, Callable[..., Any]] = {
        "configure": relay.configure,
        "listen": relay.listen,
        "cut": relay.cut,
        "heal": relay.heal,
        "stats": relay.stats,
        "bye": lambda: None,
    }
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        request = json.loads(line)
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = commands[request["do"]](**request.get("with", {}))
        except OSError as error:
            answer["error"] = f"{request['do']} {request.get('with')}: {error}"
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        if request["do"] == "bye":
            return


def main() -> int:
    """Run the relay to the end of its harness."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
