"""The hosts of an ssh run: a file that says where they are and how to log in.

Either one ``[user@]host[:port]`` a line (``#`` begins a comment), or, when the file's name ends in
``.toml``, defaults and a ``[[host]]`` table for each; see docs/ssh.md. Nothing here is secret: a
key is named by its file, and a key with a passphrase belongs into an agent.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError

HOSTS_VARIABLE: Final = "KRUCIBLE_HOSTS"  # names the hosts file, as --hosts does
SSH_PORT: Final = 22
NODE_PORT: Final = 9093
HOSTS_MAX: Final = 99
_PORT_MAX = 65_535
_BYTES_MAX = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*\$?")
_LINE = re.compile(r"(?:(?P<user>[^@\s]*)@)?(?P<host>[^@:\s]*)(?::(?P<port>[^\s]*))?")
_OF_FILE = {"key": str, "known_hosts": str, "unknown_hosts": str}
_OF_HOST = {"user": str, "port": int, "python": str, "java": str, "folder": str, "node_port": int}
_OF_ONE = {"host": str, "address": str}
_REFUSE, _ACCEPT = "refuse", "accept"


@dataclass(frozen=True, slots=True)
class Host:
    """One host, and how to log in there."""

    host: str  # name or IPv4 address that ssh connects to
    port: int = SSH_PORT
    user: str | None = None  # None: the one who runs krucible
    address: str | None = None  # of the node, for other nodes and for clients; None: as for ssh
    node_port: int = NODE_PORT
    python: str | None = None  # None: the newest that is found
    folder: str = "/var/tmp"  # noqa: S108 - a new folder of our own is made in it
    key: str | None = None  # a file; None: the agent and the usual files
    known_hosts: str | None = None  # a file; None: the user's own
    accept_unknown: bool = False
    java: str | None = None  # None: the first that will do, where nodes need one

    def __str__(self) -> str:
        user = "" if self.user is None else f"{self.user}@"
        return f"{user}{self.host}" + (f":{self.port}" if self.port != SSH_PORT else "")

    def to_json(self) -> dict[str, Any]:
        """The host as a JSON object, to find it again when the run is dead."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Host:
        """Rebuild it from ``to_json``'s object; raises TypeError."""
        return cls(**data)


def load(path: Path) -> tuple[Host, ...]:
    """Read a hosts file.

    Raises:
        UsageError: It cannot be read, or something in it is wrong: what, and in which line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            raise UsageError(f"hosts file {path}: larger than {_BYTES_MAX} bytes")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"hosts file {path}: {error}") from error
    hosts = _of_toml(path, text) if path.suffix == ".toml" else _of_lines(path, text)
    if not 0 < len(hosts) <= HOSTS_MAX:
        raise UsageError(f"hosts file {path}: names {len(hosts)} hosts; want 1 to {HOSTS_MAX}")
    return tuple(hosts)


def _of_lines(path: Path, text: str) -> list[Host]:
    hosts: list[Host] = []
    seen: dict[tuple[str, int], int] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        where = f"hosts file {path}, line {number}"
        if not line:
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise UsageError(f"{where}: {line!r}: want [user@]host[:port], with an IPv4 address")
        port = found["port"]
        if port is not None and not port.isdecimal():
            raise UsageError(f"{where}: port {port!r}: want a number from 1 to {_PORT_MAX}")
        fields = {"host": found["host"], "user": found["user"], "port": port and int(port)}
        hosts.append(_checked({k: v for k, v in fields.items() if v is not None}, where))
        _check_new(hosts[-1], seen, number, where, "line")
    return hosts


def _of_toml(path: Path, text: str) -> list[Host]:
    where = f"hosts file {path}"
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: {error}") from error
    tables = data.pop("host", None)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{where}: no [[host]] tables: want one for each host")
    data = _with_files(path, data, where)
    hosts: list[Host] = []
    seen: dict[tuple[str, int], int] = {}
    for number, table in enumerate(tables, start=1):
        each = f"{where}, host {number}"
        _check_types(table, {**_OF_HOST, **_OF_ONE}, each)
        hosts.append(_checked({**data, **table}, each))
        _check_new(hosts[-1], seen, number, each, "host")
    return hosts


def _with_files(path: Path, data: dict[str, Any], where: str) -> dict[str, Any]:
    """Check what holds for all hosts of a file; its files are found from that one's folder."""
    _check_types(data, {**_OF_FILE, **_OF_HOST}, where)
    unknown = data.pop("unknown_hosts", _REFUSE)
    if unknown not in (_REFUSE, _ACCEPT):
        raise UsageError(f"{where}: unknown_hosts is {unknown!r}: want {_REFUSE!r} or {_ACCEPT!r}")
    data["accept_unknown"] = unknown == _ACCEPT
    for name in ("key", "known_hosts"):
        if name in data:
            data[name] = str((path.parent / Path(data[name]).expanduser()).absolute())
            if not Path(data[name]).is_file():
                raise UsageError(f"{where}: {name}: there is no file {data[name]}")
    return data


def login(path: Path, text: str, defaults: Mapping[str, Any], where: str) -> Host:
    """Read ``[user@]host[:port]`` of a file that has defaults for it, as a hosts file has.

    Raises:
        UsageError: Something in it is wrong; ``where`` says in what.
    """
    found = _LINE.fullmatch(text)
    if found is None or not (found["port"] or "0").isdecimal():
        raise UsageError(f"{where}: {text!r}: want [user@]host[:port], with an IPv4 address")
    data = _with_files(path, dict(defaults), where)
    fields = {
        "host": found["host"],
        "user": found["user"],
        "port": found["port"] and int(found["port"]),
    }
    return _checked({**data, **{k: v for k, v in fields.items() if v is not None}}, where)


def _check_types(table: Mapping[str, Any], known: Mapping[str, type], where: str) -> None:
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"{where}: {name!r} is no setting; there are: {', '.join(known)}")
        if type(value) is not known[name]:
            raise UsageError(f"{where}: {name} is {value!r}: want {known[name].__name__}")


def _checked(fields: Mapping[str, Any], where: str) -> Host:
    if not _NAME.fullmatch(fields.get("host", "")):
        raise UsageError(
            f"{where}: host {fields.get('host', '')!r}: want a host name or an IPv4 address"
        )
    if "user" in fields and not _USER.fullmatch(fields["user"]):
        raise UsageError(f"{where}: user {fields['user']!r}: want a user name")
    for name in ("port", "node_port"):
        if not 1 <= fields.get(name, 1) <= _PORT_MAX:
            raise UsageError(f"{where}: {name} {fields[name]}: want a number from 1 to {_PORT_MAX}")
    if not fields.get("folder", "/").startswith("/"):
        raise UsageError(f"{where}: folder {fields['folder']!r}: want an absolute path there")
    return Host(**fields)


def _check_new(
    host: Host, seen: dict[tuple[str, int], int], number: int, where: str, unit: str
) -> None:
    """Two nodes on one host could not be told apart by a packet filter."""
    first = seen.setdefault((host.host.lower(), host.port), number)
    if first != number:
        raise UsageError(f"{where}: {host} is the same host as in {unit} {first}; name each once")
