"""Finds the node at the other end of a loopback connection, by the kernel's tables.

Our own nodes connect from an address each, which says who they are. Any other program connects
from whatever the kernel chooses; its process is found by the inode of its end of the connection.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.healing.journal import RUN_VARIABLE
from harness.processes.procfs import PROC, environment_of, processes

NODE_VARIABLE: Final = "KRUCIBLE_NODE"  # in the environment of a node's processes: its name
_TABLES: Final = ("net/tcp", "net/tcp6")
_LINK: Final = re.compile(r"socket:\[(\d+)\]")
_LOCAL, _INODE = 1, 9  # columns of a table


class Owners:
    """Finds the nodes of one run that sockets belong to; remembers their processes."""

    def __init__(self, run: str, proc: Path = PROC) -> None:
        self._run = run
        self._proc = proc
        self._nodes: dict[int, str] = {}  # by pid

    def node_at(self, host: str, port: int) -> str | None:
        """The node whose end of a TCP connection has this address; None: it is no node's."""
        inode = self._inode(host, port)
        if inode is None:
            return None
        pid = self._holder(inode)
        if pid is None:  # a process that has begun meanwhile
            self._nodes = dict(self._look())
            pid = self._holder(inode)
        return None if pid is None else self._nodes[pid]

    def _inode(self, host: str, port: int) -> int | None:
        wanted = {spelled.encode() for spelled in _spelled(host, port)}
        for table in _TABLES:
            try:
                lines = (self._proc / table).read_bytes().splitlines()[1:]
            except OSError:
                continue  # a kernel without IPv6
            for line in lines:
                columns = line.split()
                if columns[_LOCAL] in wanted and columns[_INODE] != b"0":
                    return int(columns[_INODE])
        return None

    def _holder(self, inode: int) -> int | None:
        return next((pid for pid in self._nodes if inode in self._sockets(pid)), None)

    def _sockets(self, pid: int) -> set[int]:
        folder, found = self._proc / str(pid) / "fd", set[int]()
        try:
            names = os.listdir(folder)  # noqa: PTH208 - names are enough
        except OSError:
            return found  # it is gone
        for name in names:
            try:
                link = _LINK.fullmatch(os.readlink(folder / name))  # noqa: PTH115 - as above
            except OSError:
                continue  # closed meanwhile
            if link is not None:
                found.add(int(link[1]))
        return found

    def _look(self) -> Iterator[tuple[int, str]]:
        for pid in processes():
            variables = environment_of(pid)
            if variables.get(RUN_VARIABLE) == self._run and NODE_VARIABLE in variables:
                yield pid, variables[NODE_VARIABLE]


def _spelled(host: str, port: int) -> Iterator[str]:
    """An IPv4 address as the tables have it, and as IPv6's table maps it."""
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    yield f"{number:08X}:{port:04X}"
    prefix = struct.unpack("=I", b"\0\0\xff\xff")[0]
    yield f"{0:08X}{0:08X}{prefix:08X}{number:08X}:{port:04X}"
