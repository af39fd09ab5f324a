"""The limits of a listener: every wait, buffer and count has a bound."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

from node.wire.frames import FIRST_FRAME_BYTES_MAX, FRAME_BYTES_MAX
from node.wire.shape import REQUEST_ELEMENTS_MAX

CONNECTIONS_MAX: Final = 4096  # however many files may be open: TLS takes some 50 KB for each


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that one server grants its clients. Times in seconds."""

    frame_bytes_max: int = FRAME_BYTES_MAX  # Kafka's socket.request.max.bytes, there 100 MiB
    first_frame_bytes_max: int = FIRST_FRAME_BYTES_MAX
    buffered_bytes_max: int = 256 * 1024 * 1024  # partial frames of all connections together
    pipelined_bytes_max: int = 256 * 1024  # read ahead while a request is in flight
    connections_max: int = 512  # well below the usual 1024 open files of a process
    handshakes_max: int = 64  # of TLS at a time: each costs milliseconds of the event loop
    handshake_timeout_s: float = 10.0
    elements_max: int = REQUEST_ELEMENTS_MAX  # in one request of a client
    broker_elements_max: int = 10 * REQUEST_ELEMENTS_MAX  # where a broker speaks of all it leads
    frame_timeout_s: float = 30.0  # from the first byte of a frame to its last, and for replies
    idle_timeout_s: float = 600.0  # Kafka's connections.max.idle.ms

    @classmethod
    def of_process(cls) -> Limits:
        """Derive the limits from the process's limit of open files; half of those are connections.

        A broker keeps about five to the active controller.
        """
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            soft = 2 * CONNECTIONS_MAX
        return cls(connections_max=min(soft // 2, CONNECTIONS_MAX))
