"""Reads a properties file, and turns the text of one value into what it means.

Every parser here takes the text of a value and raises ValueError with what is wanted instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from node.core.types import Endpoint, ReplicaKey, Voter, VoterSet

T = TypeVar("T")
D = TypeVar("D")

_MILLIS_MAX = 2**31 - 1


class ConfigError(Exception):
    """Raised when a configuration cannot be used; says which key, its value and what is wanted."""


def read_properties(path: Path) -> dict[str, str]:
    """The key=value lines of a file; raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    properties: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith(("#", "!")):
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{path}:{number}: {line!r} is not key=value")
        properties[key.strip()] = value.strip()
    return properties


class Getter:
    """Typed access to properties; a value that does not parse names its key."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def required(self, key: str, parser: Callable[[str], T]) -> T:
        """The value of ``key``; raises ConfigError."""
        if key not in self._properties:
            raise ConfigError(f"missing setting {key!r}")
        return self._parse(key, parser)

    def optional(self, key: str, parser: Callable[[str], T], default: D) -> T | D:
        """The value of ``key``, or ``default`` when it is not set; raises ConfigError."""
        return self._parse(key, parser) if key in self._properties else default

    def _parse(self, key: str, parser: Callable[[str], T]) -> T:
        text = self._properties[key]
        try:
            return parser(text)
        except ValueError as error:
            raise ConfigError(f"{key}={text!r}: {error}") from error


def whole(text: str) -> int:
    """A whole number."""
    if re.fullmatch("-?[0-9]{1,40}", text) is None:
        raise ValueError("want a whole number")
    return int(text)


def non_negative(text: str) -> int:
    """An id: 0 or more."""
    value = whole(text)
    if not 0 <= value < 1 << 31:
        raise ValueError("want 0 or more, below 2^31")
    return value


def positive(text: str) -> int:
    """A size or a count: more than 0."""
    value = whole(text)
    if value <= 0:
        raise ValueError("want more than 0")
    return value


def size_or_off(text: str) -> int:
    """A size: more than 0, or -1 for no bound."""
    return -1 if text == "-1" else positive(text)


def millis(text: str) -> int:
    """Milliseconds of a timer."""
    value = whole(text)
    if not 0 < value <= _MILLIS_MAX:
        raise ValueError("want milliseconds, more than 0")
    return value


def seconds(text: str) -> int:
    """Seconds of a timer, in milliseconds."""
    value = 1000 * whole(text)
    if not 0 < value <= _MILLIS_MAX:
        raise ValueError("want seconds, more than 0")
    return value


def millis_or_off(text: str) -> int:
    """Milliseconds of a timer, or 0."""
    return whole(text) if text == "0" else millis(text)


def filled(text: str) -> str:
    """Any text but none."""
    if not text or "\0" in text:
        raise ValueError("want some text")
    return text


def path(text: str) -> Path:
    """A path."""
    if not text or "\0" in text:
        raise ValueError("want a path")
    return Path(text)


def boolean(text: str) -> bool:
    """Read ``true`` or ``false``."""
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def roles(text: str) -> frozenset[str]:
    """The roles of a node."""
    found = frozenset(part.strip() for part in text.split(","))
    if not found <= {"controller", "broker"}:
        raise ValueError("want controller, broker or both")
    return found


def ids(text: str) -> tuple[int, ...]:
    """A list of node ids."""
    return tuple(non_negative(part.strip()) for part in text.split(",") if part.strip())


def names(text: str) -> tuple[str, ...]:
    """A list of names, at least one."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("want a name, or names with commas between them")
    return found


def endpoint(text: str) -> Endpoint:
    """host:port, with the host in brackets where it has colons itself."""
    host, separator, port = text.strip().rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not separator or not host:
        raise ValueError("want host:port")
    if re.fullmatch("[0-9]{1,5}", port) is None or not 0 < int(port) < 1 << 16:
        raise ValueError("want a port from 1 to 65535")
    return Endpoint(host, int(port))


def endpoints(text: str) -> tuple[Endpoint, ...]:
    """A list of host:port."""
    return tuple(endpoint(part) for part in text.split(","))


def named_endpoints(text: str) -> tuple[tuple[str | None, Endpoint], ...]:
    """A list of NAME://host:port; the name may be left out."""
    found = []
    for part in text.split(","):
        name, separator, address = part.strip().partition("://")
        found.append((name if separator else None, endpoint(address if separator else name)))
    if len({name for name, _ in found}) != len(found):
        raise ValueError("a listener name stands twice")
    return tuple(found)


def protocol_map(text: str) -> dict[str, str]:
    """A list of LISTENER:PROTOCOL."""
    protocols = {}
    for part in names(text):
        name, separator, protocol = part.partition(":")
        if not separator or protocol not in ("PLAINTEXT", "SSL"):
            raise ValueError(
                "want LISTENER:PLAINTEXT or LISTENER:SSL, with commas between them; "
                "SASL is not supported"
            )
        protocols[name] = protocol
    return protocols


def voters(text: str) -> VoterSet:
    """A static quorum: id@host:port,..."""
    found = []
    for part in text.split(","):
        node_id, separator, address = part.strip().partition("@")
        if not separator:
            raise ValueError("want id@host:port,...")
        found.append(Voter(ReplicaKey(non_negative(node_id.strip())), endpoint(address)))
    if len({v.key.id for v in found}) != len(found):
        raise ValueError("a voter id stands twice")
    return VoterSet.of(*found)
