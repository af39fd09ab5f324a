"""A block of loopback addresses for one run, which no other run can take.

Linux lets anybody bind any address of 127.0.0.0/8. A run takes a free ``X`` and then has, all on
one port::

    127.77.X.i        node i listens here and connects from here
    127.77.X.100+i    the relay listens here for node i; this is what node i advertises
    127.77.X.250      the harness's clients connect from here
    127.77.X.254      a bound socket that marks X as taken for as long as the harness lives
"""

from __future__ import annotations

import socket

from harness.errors import EnvError

NODES_MAX = 99
PORTS = (9093, 19093, 29093)  # all below the range that the kernel gives to outgoing connections
_LOCK_PORT = 7077


class Block:
    """The addresses 127.77.X.* of one run."""

    def __init__(self, x: int, port: int, lock: socket.socket) -> None:
        self._x = x
        self.port = port
        self._lock = lock

    @classmethod
    def reserve(cls, nodes: int) -> Block:
        """Take the first X that no live run holds and whose addresses are all free.

        Raises:
            EnvError: There is none, or this host cannot bind such addresses.
        """
        last: OSError | None = None
        for x in range(1, 255):
            lock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                lock.bind((f"127.77.{x}.254", _LOCK_PORT))  # exclusive: nobody else's bind works
                port = _free_port(x, nodes)
                if port is not None:
                    return cls(x, port, lock)
            except OSError as error:
                last = error
            lock.close()
        raise EnvError(
            f"no free addresses in 127.77.0.0/16 ({last}): the local environment needs Linux, "
            f"where all of 127.0.0.0/8 can be bound; `krucible heal` frees what dead runs hold"
        )

    @property
    def client(self) -> str:
        """Give the address that the harness's clients connect from."""
        return self._host(250)

    def node(self, number: int) -> str:
        """The own address of the node with this number, from 1."""
        return self._host(number)

    def relay(self, number: int) -> str:
        """The relay's address for the node with this number, from 1."""
        return self._host(100 + number)

    def release(self) -> None:
        """Give the block back."""
        self._lock.close()

    def _host(self, last: int) -> str:
        return f"127.77.{self._x}.{last}"


def _free_port(x: int, nodes: int) -> int | None:
    for port in PORTS:
        hosts = [f"127.77.{x}.{n + base}" for n in range(1, nodes + 1) for base in (0, 100)]
        if all(_can_listen(host, port) for host in hosts):
            return port
    return None


def _can_listen(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the nodes themselves do
        try:
            sock.bind((host, port))
            sock.listen(1)
        except OSError:
            return False
        return True
