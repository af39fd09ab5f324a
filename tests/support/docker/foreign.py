"""A container of somebody else, with a firewall rule in it, which nothing of ours may touch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.envs.docker.engine import Engine
from harness.envs.docker.image import ensure


class Foreign:
    """What it looks like now, and what it looked like at first."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self.before = self.now()

    def now(self) -> object:
        """Its process, its state and its rules."""
        found = self._engine.inspect(self._name)
        assert found is not None, "somebody else's container is gone"
        rules = self._engine.execute(self._name, ["iptables", "-S"])
        return found["State"]["Pid"], found["State"]["Status"], rules


@contextlib.contextmanager
def foreign(name: str) -> Iterator[Foreign]:
    """Start it; it is removed at the end."""
    with contextlib.closing(Engine.connect()) as engine:
        engine.run(
            name,
            {
                "Image": ensure(engine),
                "Cmd": ["sleep", "infinity"],
                "HostConfig": {"CapAdd": ["NET_ADMIN"]},
            },
        )
        try:
            rule = ["iptables", "-A", "INPUT", "-p", "tcp", "--dport", "7", "-j", "DROP"]
            assert engine.execute(name, rule) == (0, "")
            yield Foreign(engine, name)
        finally:
            engine.remove(name)
