"""The attach file (TOML): where a foreign cluster is, how its nodes are reached, what is allowed.

Nothing is allowed that the file does not allow. docs/attach.md has every setting,
docs/examples/attach.toml an example. Nothing here is secret: a key of ssh is named by its file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.contracts.environment import Address
from harness.envs.ssh.hosts import Host, login
from harness.errors import UsageError

ATTACH_VARIABLE: Final = "KRUCIBLE_ATTACH"  # names the attach file, as --attach does
SYSTEMS: Final = ("kafka", "kraft")
# The families of faults that a foreign cluster may be given, and what each does to a node.
FAMILIES: Final[Mapping[str, str]] = {
    "pause": "its process stands still, and goes on",
    "kill": "SIGKILL, and a start",
    "stop": "SIGTERM, and a start",
    "partition": "links from and to it are cut",
}
STARTS: Final = frozenset({"kill", "stop"})  # those that take a way to start a node again
WAYS: Final = ("pid", "pid_file", "unit", "container")
_BYTES_MAX = 1 << 20
_PORT_MAX = 65_535
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Reach:
    """A way to a node's process; exactly one of ``WAYS`` is set.

    Attributes:
        id: The node's id in the cluster.
        pid: Of its process, which cannot be started again.
        pid_file: The file that has its pid, read whenever it is looked for.
        unit: Its systemd unit.
        container: The name of its container, of the Engine on its host.
        start: The command that starts it again, for ``pid_file``; it writes that file anew.
        host: Where that is, by ssh; None: this host.
        allow: The families of faults that it may be given.
    """

    id: int
    pid: int | None = None
    pid_file: str | None = None
    unit: str | None = None
    container: str | None = None
    start: tuple[str, ...] = ()
    host: Host | None = None
    allow: frozenset[str] = frozenset()

    @property
    def can_start(self) -> bool:
        """Tell whether it can be started again."""
        return bool(self.start) or self.unit is not None or self.container is not None

    def target(self) -> dict[str, Any]:
        """Describe the node to the agent on its host; JSON."""
        told = {way: getattr(self, way) for way in WAYS if getattr(self, way) is not None}
        return {**told, **({"start": list(self.start)} if self.start else {})}

    def __str__(self) -> str:
        way, what = next(iter(self.target().items()))
        where = "here" if self.host is None else f"on {self.host}"
        return f"{way.replace('_', ' ')} {what} {where}"


@dataclass(frozen=True, slots=True)
class Radius:
    """The blast radius: how much of the cluster may be hit at a time."""

    nodes_at_once: int = 1
    majority: bool = False  # whether a majority of the voters may be hit


@dataclass(frozen=True, slots=True)
class Guards:
    """The guard ends a run that breaks one of these limits; in seconds, None: no limit."""

    no_leader_s: float | None = 15.0
    under_replicated_s: float | None = 30.0
    unreachable_s: float | None = 10.0
    poll_s: float = 0.5


@dataclass(frozen=True, slots=True)
class AttachFile:
    """A parsed attach file."""

    path: Path
    system: str
    controllers: tuple[Address, ...]
    brokers: tuple[Address, ...] = ()
    nodes: Mapping[int, Reach] = field(default_factory=dict)
    radius: Radius = Radius()
    guards: Guards = Guards()
    play_brokers: bool = False

    @property
    def allowed(self) -> frozenset[str]:
        """The families that at least one node may be given."""
        return frozenset().union(*(reach.allow for reach in self.nodes.values()))

    def told(self) -> dict[str, Any]:
        """Give what the file says, but not how to log in; JSON, for the run's folder."""
        return {
            "file": self.path.name,
            "system": self.system,
            "nodes": [
                {"id": id_, "reached": str(reach), "allow": sorted(reach.allow)}
                for id_, reach in sorted(self.nodes.items())
            ],
            "radius": asdict(self.radius),
            "guards": asdict(self.guards),
            "play_brokers": self.play_brokers,
        }


def load(path: Path) -> AttachFile:
    """Read an attach file.

    Raises:
        UsageError: It cannot be read, or something in it is wrong: what, where, and what to do.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            raise UsageError(f"attach file {path}: larger than {_BYTES_MAX} bytes")
        parsed = tomllib.loads(data.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"attach file {path}: {error}") from error
    return _Reader(path).read(parsed)


_TOP = {
    "system": str,
    "controllers": list,
    "brokers": list,
    "clients": dict,
    "faults": dict,
    "guard": dict,
    "ssh": dict,
    "node": list,
}
_FAULTS = {"allow": list, "nodes_at_once": int, "majority": bool}
_CLIENTS = {"play_brokers": bool}
_GUARD = ("no_leader_s", "under_replicated_s", "unreachable_s", "poll_s")
_NODE = {
    "id": int,
    "pid": int,
    "pid_file": str,
    "unit": str,
    "container": str,
    "start": list,
    "ssh": str,
    "allow": list,
}


class _Reader:
    """Reads one file; every error names the file and the place in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, data: Mapping[str, Any]) -> AttachFile:
        self._check(data, _TOP, "")
        system = data.get("system", SYSTEMS[0])
        if system not in SYSTEMS:
            raise self._wrong("system", f"is {system!r}: want {' or '.join(SYSTEMS)}")
        controllers = self._addresses(data, "controllers")
        if not controllers:
            raise self._wrong("controllers", "is missing: name at least one, as in host:9093")
        faults = data.get("faults", {})
        self._check(faults, _FAULTS, "faults")
        everywhere = self._allow(faults, "faults")
        radius = Radius(int(faults.get("nodes_at_once", 1)), bool(faults.get("majority", False)))
        if radius.nodes_at_once < 1:
            raise self._wrong("faults.nodes_at_once", f"is {radius.nodes_at_once}: want 1 or more")
        clients = data.get("clients", {})
        self._check(clients, _CLIENTS, "clients")
        nodes: dict[int, Reach] = {}
        for number, table in enumerate(data.get("node", ()), start=1):
            reach = self._node(table, f"node {number}", everywhere, data.get("ssh", {}))
            if reach.id in nodes:
                raise self._wrong(f"node {number}", f"has the id {reach.id} of an earlier one")
            nodes[reach.id] = reach
        if everywhere and not nodes:
            raise self._wrong(
                "faults.allow", "allows faults, but there is no [[node]] that says where one is"
            )
        return AttachFile(
            self._path.absolute(),
            system,
            controllers,
            self._addresses(data, "brokers"),
            nodes,
            radius,
            self._guards(data.get("guard", {})),
            bool(clients.get("play_brokers", False)),
        )

    def _node(
        self, table: Any, where: str, everywhere: frozenset[str], ssh: Mapping[str, Any]
    ) -> Reach:
        if not isinstance(table, dict):
            raise self._wrong(where, "want a table: [[node]]")
        self._check(table, _NODE, where)
        if "id" not in table:
            raise self._wrong(where, "id is missing: want the node's id in the cluster")
        ways = [way for way in WAYS if way in table]
        if len(ways) != 1:
            raise self._wrong(where, f"want exactly one of {', '.join(WAYS)}, found {ways or 0}")
        start = tuple(self._texts(table, "start", where))
        if start and ways[0] == "pid":
            raise self._wrong(where, "start: name a pid_file, which tells who was started, no pid")
        if start and ways[0] != "pid_file":
            raise self._wrong(where, f"start: a {ways[0]} starts by itself; leave it out")
        if "pid" in table and table["pid"] <= 1:
            raise self._wrong(where, f"pid is {table['pid']}: want that of the node's process")
        reach = Reach(
            id=table["id"],
            **{ways[0]: table[ways[0]]},
            start=start,
            host=login(self._path, table["ssh"], ssh, f"attach file {self._path}, {where}")
            if "ssh" in table
            else None,
            allow=self._allow(table, where) if "allow" in table else everywhere,
        )
        if (wanting := reach.allow & STARTS) and not reach.can_start:
            raise self._wrong(
                where,
                f"{', '.join(sorted(wanting))} is allowed, and nothing says how it is started "
                'again: add pid_file and start = ["command", "argument"], or an allow of its own',
            )
        return reach

    def _allow(self, table: Mapping[str, Any], where: str) -> frozenset[str]:
        chosen = self._texts(table, "allow", where)
        for name in chosen:
            if name not in FAMILIES:
                raise self._wrong(
                    where, f"allow: no family of faults here is {name!r}; want {list(FAMILIES)}"
                )
        return frozenset(chosen)

    def _guards(self, table: Mapping[str, Any]) -> Guards:
        given: dict[str, float | None] = {}
        for name, value in table.items():
            if name not in _GUARD:
                raise self._wrong(
                    "guard", f"{name!r} is no setting; there are: {', '.join(_GUARD)}"
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise self._wrong(f"guard.{name}", f"is {value!r}: want seconds, or 0 for never")
            given[name] = float(value) or None
        if given.get("poll_s", 0.0) is None:
            raise self._wrong("guard.poll_s", "is 0: want more; the guard cannot be switched off")
        return Guards(**given)  # type: ignore[arg-type] # poll_s is not None: see above

    def _addresses(self, data: Mapping[str, Any], name: str) -> tuple[Address, ...]:
        found = []
        for text in self._texts(data, name, ""):
            match = _ADDRESS.fullmatch(text)
            if match is None or not 1 <= int(match["port"]) <= _PORT_MAX:
                raise self._wrong(name, f"{text!r}: want host:port")
            found.append(Address(match["host"], int(match["port"])))
        return tuple(found)

    def _texts(self, table: Mapping[str, Any], name: str, where: str) -> Sequence[str]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self._wrong(f"{where}.{name}" if where else name, "want a list of strings")
        return value

    def _check(self, table: Any, known: Mapping[str, type], where: str) -> None:
        if not isinstance(table, dict):
            raise self._wrong(where, f"want a table, found {table!r}")
        for name, value in table.items():
            place = f"{where}.{name}" if where else name
            if name not in known:
                raise self._wrong(place, f"is no setting; there are: {', '.join(known)}")
            if type(value) is not known[name]:
                raise self._wrong(place, f"is {value!r}: want {known[name].__name__}")

    def _wrong(self, where: str, what: str) -> UsageError:
        return UsageError(f"attach file {self._path}: {where}: {what}")
