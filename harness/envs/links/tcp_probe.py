"""One real request to a node: connect, send Kafka's smallest request, wait for any answer.

The request is ApiVersions version 0, which every Kafka node answers whatever its role or state;
nothing of it is interpreted, so a node under test that answers garbage still has a working link.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time

from harness.contracts.environment import Address

_API_VERSIONS = 18
_CLIENT_ID = b"krucible-probe"
_BODY = struct.pack(">hhih", _API_VERSIONS, 0, 77, len(_CLIENT_ID)) + _CLIENT_ID
REQUEST = struct.pack(">i", len(_BODY)) + _BODY


async def ask(address: Address, *, source: str | None, timeout_s: float) -> tuple[bool, str, float]:
    """Try a node once: whether anything came back, what was seen, and after how many ms."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            passed, detail = await _exchange(address, source)
    except TimeoutError:
        passed, detail = False, f"no answer within {timeout_s:g} s"
    except OSError as error:
        passed, detail = False, f"{type(error).__name__}: {error.strerror or error}"
    return passed, detail, (time.monotonic() - began) * 1000


async def _exchange(address: Address, source: str | None) -> tuple[bool, str]:
    reader, writer = await asyncio.open_connection(
        address.host, address.port, local_addr=None if source is None else (source, 0)
    )
    try:
        writer.write(REQUEST)
        answer = await reader.read(4096)
        return (True, f"answer of {len(answer)} bytes") if answer else (False, "closed by peer")
    finally:
        writer.transport.abort()  # never waits for a link that is cut
        with contextlib.suppress(OSError):
            await writer.wait_closed()
