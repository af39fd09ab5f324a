"""Frames: a signed 32-bit length, then that many bytes. Source: Kafka's protocol guide."""

from __future__ import annotations

from struct import Struct
from typing import Final

from node.wire.errors import RemoteProtocolError

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
FIRST_FRAME_BYTES_MAX: Final = 1024 * 1024  # before a connection has shown that it speaks Kafka
_COMPACT_BYTES: Final = 64 * 1024  # consumed bytes kept in front of a partial frame at most

# How a TLS record begins, read as the upper half of a length: handshake or alert, version 3.x.
_TLS_RECORDS: Final = frozenset({0x1603, 0x1503})

LENGTH: Final = Struct(">i")
_LENGTH_BYTES: Final = LENGTH.size


class Framer:
    """Cuts a byte stream into frames; holds only bytes that really came.

    Feed what was read, then take frames until there is none. The announced length is believed
    for nothing but waiting: memory grows with the bytes received, never with the bytes promised.
    """

    __slots__ = ("_buffer", "_start", "limit_bytes")

    def __init__(self, limit_bytes: int = FRAME_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._start = 0

    @property
    def buffered(self) -> int:
        """Bytes received and not yet taken."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes as they were read."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame without its length, None while it is not all there.

        Raises:
            RemoteProtocolError: The announced length is negative or over ``limit_bytes``.
        """
        start, buffer = self._start, self._buffer
        available = len(buffer) - start - _LENGTH_BYTES
        if available < 0:
            self._compact()
            return None
        (size,) = LENGTH.unpack_from(buffer, start)
        if not 0 <= size <= self.limit_bytes:
            if size >> 16 in _TLS_RECORDS:
                raise RemoteProtocolError(
                    "the peer speaks TLS and this side plaintext: "
                    "give both the same security.protocol"
                )
            raise RemoteProtocolError(
                f"frame length {size} is not within 0..{self.limit_bytes} bytes"
            )
        if available < size:
            self._compact()
            return None
        begin = start + _LENGTH_BYTES
        end = begin + size
        with memoryview(buffer) as view:
            frame = bytes(view[begin:end])
        if end == len(buffer):
            buffer.clear()
            self._start = 0
        else:
            self._start = end
        return frame

    def describe_partial(self) -> str:
        """Describe how far the frame at hand has come, for a reason."""
        if self.buffered < _LENGTH_BYTES:
            return f"{self.buffered} of {_LENGTH_BYTES} bytes of a length"
        (size,) = LENGTH.unpack_from(self._buffer, self._start)
        return f"{self.buffered - _LENGTH_BYTES} of {size} bytes of a frame"

    def _compact(self) -> None:
        if self._start > _COMPACT_BYTES:
            del self._buffer[: self._start]
            self._start = 0
