"""Controllers of ours in containers that somebody else runs, each with an address of its own."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.envs.docker.engine import Engine
from harness.envs.docker.image import ensure
from harness.envs.docker.subnet import create_network
from node.core.types import Endpoint
from tests.support.attached.controllers import attach_file, format_controller
from tests.support.kafka.calls import describe_quorum
from tests.support.kafka.cluster import wait_for

PORT = 9093
FIRST_HOST = 11
RULES = ["iptables", "-S", "INPUT"]


@dataclass(frozen=True)
class Contained:
    """The containers of one cluster, by node id."""

    folder: Path
    engine: Engine
    names: dict[int, str]
    ends: dict[int, Endpoint]

    def status(self, id_: int) -> str:
        """Of a container, as the Engine has it: running, paused, exited."""
        found = self.engine.inspect(self.names[id_])
        assert found is not None, f"container {self.names[id_]} is gone"
        return str(found["State"]["Status"])

    def rules(self, id_: int) -> list[str]:
        """The firewall rules in a container's network that are ours."""
        code, said = self.engine.execute(self.names[id_], RULES)
        assert code == 0, said
        return [line for line in said.splitlines() if "KRUCIBLE" in line]

    def attach(self, allow: Sequence[str], guard: str) -> Path:
        """Write an attach file in which so much is allowed of every node; where it is."""
        nodes = {id_: {"container": name} for id_, name in self.names.items()}
        return attach_file(self.folder, self.ends, nodes, allow, guard)

    def await_well(self) -> None:
        """Wait until all run, no link is cut, and somebody leads."""
        wait_for(
            lambda: (
                all(self.status(i) == "running" and not self.rules(i) for i in self.names)
                and any(map(describe_quorum, self.ends.values()))
            ),
            "the containers are as they were",
            lambda: str({i: self.status(i) for i in self.names}),
        )


@contextlib.contextmanager
def contained(folder: Path, count: int = 3) -> Iterator[Contained]:
    """Controllers in containers, up and led; everything is removed at the end."""
    prefix = f"foreign-{os.getpid()}-{time.monotonic_ns()}"
    with contextlib.closing(Engine.connect()) as engine, contextlib.ExitStack() as stack:
        subnet = create_network(engine, prefix, {"foreign": prefix})
        stack.callback(engine.remove_network, prefix)
        ends = {n: Endpoint(str(subnet[FIRST_HOST + n]), PORT) for n in range(1, count + 1)}
        names = {n: f"{prefix}-{n}" for n in ends}
        voters = ",".join(f"{n}@{end.host}:{end.port}" for n, end in ends.items())
        for n, end in ends.items():
            config = format_controller(folder / f"n{n}", n, end, voters)
            stack.callback(engine.remove, names[n])
            engine.run(names[n], _container(ensure(engine), prefix, folder, config, end))
        found = Contained(folder, engine, names, ends)
        found.await_well()
        yield found


def _container(
    image: str, network: str, folder: Path, config: Path, end: Endpoint
) -> dict[str, object]:
    address = {"IPAMConfig": {"IPv4Address": end.host}}
    return {
        "Image": image,
        "Entrypoint": ["python3", "-m", "node", "run", "--config", str(config)],
        "HostConfig": {
            "NetworkMode": network,
            "CapAdd": ["NET_ADMIN"],  # for who looks at the rules from within
            "Mounts": [{"Type": "bind", "Source": str(folder), "Target": str(folder)}],
        },
        "NetworkingConfig": {"EndpointsConfig": {network: address}},
    }
