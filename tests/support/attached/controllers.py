"""Makes what clusters of our controllers have in common that somebody else runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from node.core.types import Endpoint
from tests.support.kafka.cluster import CLUSTER_ID


def format_controller(folder: Path, number: int, end: Endpoint, voters: str) -> Path:
    """Make and format the folder of a controller, and tell where its settings are."""
    folder.mkdir(parents=True)
    settings = {
        "node.id": number,
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{end.host}:{end.port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "controller.quorum.election.timeout.ms": 500,
        "log.dirs": folder / "data",
        "krucible.brokers": "7,8",
        "read.barrier": "true",
    }
    config = folder / "node.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    words = ["format", "--config", str(config), "--cluster-id", CLUSTER_ID]
    subprocess.run([sys.executable, "-m", "node", *words], check=True, capture_output=True)
    return config


def attach_file(
    folder: Path,
    ends: Mapping[int, Endpoint],
    nodes: Mapping[int, Mapping[str, str]],
    allow: Sequence[str],
    guard: str,
    login: Mapping[str, str] | None = None,
) -> Path:
    """Write an attach file, and tell where it is.

    Args:
        folder: Gets it.
        ends: Where each controller listens, by id.
        nodes: By id, what the file says of how a node is reached.
        allow: The faults that every node may be given.
        guard: The lines of the guard.
        login: The lines of ``[ssh]``, where hosts are reached so.
    """
    first = next(iter(ends.values()))
    lines = [
        'system = "kraft"',
        f'controllers = ["{first.host}:{first.port}"]',
        f"[faults]\nallow = {json.dumps(list(allow))}",
        f"[guard]\n{guard}",
    ]
    if login is not None:
        lines += ["[ssh]", *(f'{key} = "{value}"' for key, value in login.items())]
    for id_, how in nodes.items():
        lines += ["[[node]]", f"id = {id_}", *(f'{key} = "{value}"' for key, value in how.items())]
    path = folder / "attach.toml"
    path.write_text("\n".join(lines) + "\n")
    return path
