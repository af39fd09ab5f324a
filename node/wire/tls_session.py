"""The listening side of TLS without I/O: ciphertext in, plaintext out, and the other way round.

asyncio's own TLS tells nobody of a handshake that failed, nor counts one that goes on.
"""

from __future__ import annotations

import ssl
from typing import Final

from node.wire.errors import RemoteProtocolError
from node.wire.tls import explain

_READ_BYTES: Final = 64 * 1024
_HANDSHAKE_RECORD: Final = 0x16


class TlsSession:
    """One connection's TLS. After anything was received, ``outgoing`` may have bytes to send."""

    __slots__ = ("_from_peer", "_object", "_to_peer", "closed", "established", "started")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._from_peer = ssl.MemoryBIO()
        self._to_peer = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._from_peer, self._to_peer, server_side=True)
        self.started = False
        self.established = False
        self.closed = False  # the peer said that it will send no more

    def receive(self, data: memoryview) -> bytes:
        """The plaintext that came with these bytes; it is no longer than they are.

        Raises:
            RemoteProtocolError: They are no TLS, or one side refuses the other.
        """
        if not self.started and data[0] != _HANDSHAKE_RECORD:
            raise RemoteProtocolError(
                "the peer speaks plaintext and this listener TLS: use security.protocol SSL"
            )
        self.started = True
        self._from_peer.write(data)
        try:
            if not self.established:
                self._object.do_handshake()
                self.established = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            what = "in TLS" if self.established else "in the TLS handshake"
            raise RemoteProtocolError(f"{what}: {explain(error)}") from error

    def outgoing(self) -> bytes:
        """Take the bytes that are to be sent now; raises nothing."""
        return self._to_peer.read()

    def encrypt(self, data: bytes) -> bytes:
        """The bytes to send for a plaintext, after the handshake."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]
        return self._to_peer.read()

    def _read(self) -> bytes:
        parts = []
        try:
            while True:
                part = self._object.read(_READ_BYTES)
                if not part:
                    self.closed = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True
        return b"".join(parts)
