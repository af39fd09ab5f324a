"""A probe sends one real request from inside a node's network."""

from __future__ import annotations

import socket
import struct
import time

_INFO_BYTES = 220
_RESENT_AT, _DOUBLED_AT = 100, 216  # tcpi_total_retrans and tcpi_dsack_dups of linux/tcp.h


def probe(host: str, port: int, timeout_s: float, request: bytes) -> dict[str, object]:
    """Connect, send, wait for any answer, say what was seen.

    Returns:
        ``passed``, ``detail``, ``elapsed_ms``; and what the kernel knows of this very connection:
        ``resent`` (segments sent again) and ``doubled`` (that came twice, as the peer has told).
    """
    began = time.monotonic()
    told = {"resent": 0, "doubled": 0}
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as sock:
            sock.sendall(request)
            sock.settimeout(max(0.001, began + timeout_s - time.monotonic()))
            answer = sock.recv(4096)
            told = _told(sock)
        passed = bool(answer)
        detail = f"answer of {len(answer)} bytes" if answer else "closed by peer"
    except TimeoutError:
        passed, detail = False, f"no answer within {timeout_s:g} s"
    except OSError as error:
        passed, detail = False, f"{type(error).__name__}: {error.strerror or error}"
    elapsed_ms = (time.monotonic() - began) * 1000
    return {"passed": passed, "detail": detail, "elapsed_ms": elapsed_ms, **told}


def _told(sock: socket.socket) -> dict[str, int]:
    """Read the counts from TCP_INFO; 0 where a kernel is too old to count."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES).ljust(
        _INFO_BYTES, b"\0"
    )
    resent, doubled = (struct.unpack_from("=I", info, at)[0] for at in (_RESENT_AT, _DOUBLED_AT))
    return {"resent": resent, "doubled": doubled}
