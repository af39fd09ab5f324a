"""Nodes that are network namespaces on one bridge, with links shaped as docker and ssh do it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.agent import netem as netem_host
from harness.contracts.environment import Address, Link
from harness.envs.links.filtered import FilteredNet
from harness.envs.links.netem import to_address
from harness.envs.ssh.net import SshQueues
from harness.errors import EnvError
from harness.healing.journal import Journal

_T = TypeVar("_T")
_CLONE_NEWNET = 0x40000000
NODES = ("n1", "n2", "n3", "n4")
HANDLE = 0x1234
_AFTER_ALL_S = 0.05
_MISSING_S = 0.5


def inside(space: str, do: Callable[..., _T], *arguments: Any) -> _T:
    """Call it with this thread, and the processes it starts, in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as home, Path(f"/run/netns/{space}").open() as at:
        assert libc.setns(at.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            return do(*arguments)
        finally:
            assert libc.setns(home.fileno(), _CLONE_NEWNET) == 0


class Spaces:
    """The namespaces of the nodes, by node; addresses are 10.9.8.1 and so on."""

    def __init__(self, prefix: str) -> None:
        self.names = {node: f"{prefix}{node}" for node in NODES}
        self.addresses = {node: f"10.9.8.{number}" for number, node in enumerate(NODES, start=1)}

    def make(self, undo: contextlib.ExitStack) -> None:
        """Make them; what ``undo`` is closed for is gone."""
        bridge = f"{self.names['n1'][:-2]}br"
        _run("ip", "link", "add", bridge, "type", "bridge")
        undo.callback(_run, "ip", "link", "del", bridge)
        _run("ip", "link", "set", bridge, "up")
        for node, space in self.names.items():
            _run("ip", "netns", "add", space)
            undo.callback(_run, "ip", "netns", "del", space)
            _run("ip", "link", "add", f"{space}h", "type", "veth", "peer", "eth0", "netns", space)
            _run("ip", "link", "set", f"{space}h", "master", bridge, "up")
            _run("ip", "-n", space, "addr", "add", f"{self.addresses[node]}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")

    def qdiscs(self, node: str) -> str:
        """What tc lists in a node's namespace."""
        return inside(self.names[node], lambda: _run("tc", "qdisc", "show"))

    def udp(self, node: str) -> socket.socket:
        """A socket on the node's address."""
        sock = inside(self.names[node], lambda: socket.socket(type=socket.SOCK_DGRAM))
        sock.bind((self.addresses[node], 0))
        return sock

    def tcp(self, link: Link) -> tuple[socket.socket, socket.socket]:
        """The two ends of a connection that the source has opened."""
        source, destination = link
        listener = inside(self.names[destination], socket.socket)
        with listener:
            listener.bind((self.addresses[destination], 0))
            listener.listen()
            client = inside(self.names[source], socket.socket)
            client.settimeout(20)
            client.connect(listener.getsockname())
            server, _ = listener.accept()
            server.settimeout(20)
            return client, server

    def bad_checksums(self, node: str) -> int:
        """Packets that the node's kernel has thrown away for their checksums, or worse damage."""
        text = inside(self.names[node], Path("/proc/thread-self/net/snmp").read_text)
        rows = [line.split() for line in text.splitlines()]
        found = {
            (names[0], name): int(value)
            for names, values in zip(rows[::2], rows[1::2], strict=True)
            for name, value in zip(names[1:], values[1:], strict=True)
        }
        return sum(found[key] for key in (("Udp:", "InCsumErrors"), ("Ip:", "InHdrErrors")))


class Seen:
    """What became of numbered datagrams: arrivals in order, with how long each took in ms."""

    def __init__(
        self, spaces: Spaces, link: Link, count: int, *, every_ms: float, size: int
    ) -> None:
        with spaces.udp(link[0]) as sender, spaces.udp(link[1]) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.sent = count
            began: list[float] = []
            arrived: list[tuple[int, float]] = []
            receiver.settimeout(0.002)
            heard = time.monotonic()
            while len(began) < count or time.monotonic() < heard + self._quiet_s(arrived):
                now = time.monotonic()
                if len(began) < count and (not began or now >= began[-1] + every_ms / 1e3):
                    began.append(now)
                    sender.sendto(len(began).to_bytes(2, "big").ljust(size), receiver.getsockname())
                    heard = now
                with contextlib.suppress(TimeoutError):
                    number = int.from_bytes(receiver.recv(2048)[:2], "big")
                    heard = time.monotonic()
                    arrived.append((number, heard))
        self.numbers = [number for number, _ in arrived]
        self.times_s = [at for _, at in arrived]
        self.took = [(at - began[number - 1]) * 1e3 for number, at in arrived]

    def _quiet_s(self, arrived: list[tuple[int, float]]) -> float:
        """How long nothing must come for nothing to be on its way."""
        return _AFTER_ALL_S if len({number for number, _ in arrived}) == self.sent else _MISSING_S

    @property
    def plain(self) -> bool:
        """All came once and in order."""
        return self.numbers == list(range(1, self.sent + 1))


class NetnsFilters:
    """Agents in the namespaces, for all packets between two addresses, as in containers."""

    def __init__(self, journal: Journal, spaces: Spaces) -> None:
        self._journal = journal
        self._spaces = spaces
        self.orders: list[tuple[str, str]] = []

    async def order(self, node: str, do: str, **arguments: Any) -> dict[str, Any]:
        assert do == "netem", "there is nothing else here"
        order = arguments["order"]
        self.orders.append((node, order["do"]))
        try:
            done = inside(self._spaces.names[node], netem_host.obey, {**order, "handle": HANDLE})
        except netem_host.TcError as error:
            raise EnvError(str(error)) from error
        return {"answer": done}

    def rules(self, source: Address, destination: Address, does: str) -> list[str]:
        raise AssertionError(f"no packets go through a queue here: {source} {destination} {does}")

    def match(self, source: Address, destination: Address) -> list[list[str]]:  # noqa: ARG002
        return [to_address(destination.host)]

    async def announce(self, links: Sequence[Link]) -> int:
        return await self._journal.announce("rules", links=[list(link) for link in links])


def netns_net(journal: Journal, filters: NetnsFilters, spaces: Spaces) -> FilteredNet:
    """Links by netem, and by nothing else."""
    net = FilteredNet(journal)
    addresses = {node: Address(host, 9093) for node, host in spaces.addresses.items()}
    no_queue = dict.fromkeys(NODES, "there is no queue here")
    asyncio.run(net.start(filters, addresses, SshQueues({}), no_queue=no_queue))
    return net


@contextlib.contextmanager
def spaces(prefix: str = "kr") -> Iterator[Spaces]:
    """Make the namespaces; skips where that, or netem, cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces want root")
    if (reason := netem_host.lacking()) is not None:
        pytest.skip(f"this kernel has no netem: {reason}")
    with contextlib.ExitStack() as undo:
        made = Spaces(prefix)
        made.make(undo)
        yield made


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout
