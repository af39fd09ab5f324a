"""The configurations of containers, as the Engine's API takes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# What containers may do beyond an ordinary process, and why. A node needs nothing of it.
HOLDER_CAPABILITIES: Final = {
    "NET_ADMIN": "to cut and shape the links of its own network",
    "NET_RAW": "to send a packet of such a link a second time",
}
GATE: Final = ".go"  # in a node's folder: what a node with a gate waits for
_IN_LOG: Final = 'log=$1; shift; exec "$@" >>"$log" 2>&1 </dev/null'
_AT_GATE: Final = 'read -r _ <"$1"; shift; '


def mount(path: Path, *, read_only: bool = False) -> dict[str, Any]:
    """A folder or file of this host, under the same name."""
    return {"Type": "bind", "Source": str(path), "Target": str(path), "ReadOnly": read_only}


def holder_config(
    node: str,
    image: str,
    labels: Mapping[str, str],
    *,
    network: str,
    address: str,
    folder: Path,
    agent: Path,
) -> dict[str, Any]:
    """The container that keeps a node's network; ``folder`` is shared with what shapes links."""
    endpoint = {"IPAMConfig": {"IPv4Address": address}}
    return {
        "Image": image,
        "Hostname": node,
        "Entrypoint": ["sleep"],
        "Cmd": ["infinity"],
        "Labels": dict(labels),
        "HostConfig": {
            "NetworkMode": network,
            "Init": True,
            "CapDrop": ["ALL"],
            "CapAdd": sorted(HOLDER_CAPABILITIES),
            "LogConfig": {"Type": "none"},
            "Mounts": [mount(folder), mount(agent, read_only=True)],
        },
        "NetworkingConfig": {"EndpointsConfig": {network: endpoint}},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBox:
    """The container that a node runs in, without any capability, on its holder's network.

    Attributes:
        image: Has what it runs.
        holder: The container of its network.
        folder: The node's, which it writes to.
        log: Gets what it prints.
        reads: Files and folders of this host that it only reads.
        gated: It begins once a line is written into ``GATE``, a fifo in its folder.
    """

    image: str
    holder: str
    folder: Path
    log: Path
    reads: Sequence[Path] = ()
    gated: bool = False

    def config(
        self, argv: Sequence[str], env: Mapping[str, str], labels: Mapping[str, str]
    ) -> dict[str, Any]:
        """Configure it for a command line, its variables, and the labels of all of the run's."""
        begin = [_IN_LOG, "sh"]
        if self.gated:
            begin = [_AT_GATE + _IN_LOG, "sh", str(self.folder / GATE)]
        reads = (mount(path, read_only=True) for path in self.reads)
        return {
            "Image": self.image,
            "Entrypoint": ["sh", "-c", *begin, str(self.log)],
            "Cmd": list(argv),
            "User": f"{os.getuid()}:{os.getgid()}",  # files are ours to read and to delete
            "WorkingDir": str(self.folder),
            "Env": [f"{key}={value}" for key, value in env.items()],
            "Labels": dict(labels),
            "HostConfig": {
                "NetworkMode": f"container:{self.holder}",
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "LogConfig": {"Type": "none"},
                "Mounts": [mount(self.folder), mount(self.log), *reads],
            },
        }
