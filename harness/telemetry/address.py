"""The address of a metrics endpoint, as it is typed: ``[HOST:]PORT``."""

from __future__ import annotations

from typing import Final, NamedTuple

from harness.errors import UsageError

HOST: Final = "127.0.0.1"  # who wants others to read it says so
PORT_MAX: Final = 65_535


class Address(NamedTuple):
    """Where an endpoint listens; port 0 is any free one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address of its page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"


def parse(text: str) -> Address:
    """Read ``9464``, ``0.0.0.0:9464`` or ``[::1]:9464``; raises UsageError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    good = port.isascii() and port.isdigit() and int(port) <= PORT_MAX
    if not good or (colon and not bare) or (":" in host and bare == host):
        raise UsageError(
            f"--metrics {text!r}: want [HOST:]PORT, as in 9464, 0.0.0.0:9464 or [::1]:9464"
        )
    return Address(bare or HOST, int(port))
