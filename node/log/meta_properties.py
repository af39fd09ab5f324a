"""The ``meta.properties`` file: which cluster and node a directory belongs to, and its own id.

The directory id is made once, by formatting: a replaced disk has another one, so it is another
replica to the quorum. Source: Kafka's MetaProperties version 1; KIP-853, KIP-858.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from node.log.disk import Disk, read_file, replace_file
from node.log.layout import uuid_from_text, uuid_to_text

FILE_NAME = "meta.properties"
_VERSION = "1"
_RESERVED_IDS = 100  # Kafka keeps the first hundred ids for meanings of its own


class MetaPropertiesError(Exception):
    """Raised when a directory is not formatted as it should be; says what to do."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Content of ``meta.properties``."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def load_meta_properties(disk: Disk, log_dir: Path) -> MetaProperties | None:
    """Read the file of a directory, None when it is not formatted; raises MetaPropertiesError."""
    path = log_dir / FILE_NAME
    content = read_file(disk, path)
    if content is None:
        return None
    try:
        return decode_properties(content)
    except (ValueError, KeyError) as error:
        detail = f"no property {error}" if isinstance(error, KeyError) else str(error)
        raise MetaPropertiesError(f"cannot use {path}: {detail}") from error


def write_meta_properties(disk: Disk, log_dir: Path, meta: MetaProperties) -> None:
    """Write the file durably, in the place of an older one."""
    lines = (
        "#",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={uuid_to_text(meta.directory_id)}",
        f"node.id={meta.node_id}",
        f"version={_VERSION}",
        "",
    )
    replace_file(disk, log_dir / FILE_NAME, "\n".join(lines).encode())


def format_directory(
    disk: Disk,
    log_dir: Path,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: UUID,
) -> MetaProperties:
    """Make a directory the node's own; raises MetaPropertiesError when it is somebody's already."""
    existing = load_meta_properties(disk, log_dir)
    if existing is not None:
        raise MetaPropertiesError(
            f"{log_dir} is formatted already for node {existing.node_id} of cluster "
            f"{existing.cluster_id!r}: empty it first if it is to be used anew"
        )
    meta = MetaProperties(cluster_id, node_id, directory_id)
    disk.make_dirs(log_dir)
    write_meta_properties(disk, log_dir, meta)
    return meta


def random_id(rng: Random) -> UUID:
    """A random id for a directory, a topic or a cluster, as Kafka draws them.

    Not one of the reserved ids, and not one whose text form starts with a dash, which command
    lines would take for an option.
    """
    while True:
        candidate = UUID(int=rng.getrandbits(128), version=4)
        if not is_reserved(candidate) and not uuid_to_text(candidate).startswith("-"):
            return candidate


def is_reserved(directory_id: UUID) -> bool:
    """Tell whether a directory id is reserved for a special meaning and names no directory."""
    return directory_id.int < _RESERVED_IDS


def decode_properties(content: bytes) -> MetaProperties:
    """Read the content of the file; raises ValueError, KeyError."""
    return _decode(_properties(content.decode()))


def _decode(properties: Mapping[str, str]) -> MetaProperties:
    if properties["version"] != _VERSION:
        raise ValueError(f"unknown version {properties['version']!r}, want {_VERSION}")
    node_id = int(properties["node.id"])
    if node_id < 0:
        raise ValueError(f"node.id={node_id}, want 0 or more")
    return MetaProperties(
        properties["cluster.id"], node_id, uuid_from_text(properties["directory.id"])
    )


def _properties(text: str) -> dict[str, str]:
    properties = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if line and not line.startswith(("#", "!")):
            key, separator, value = line.partition("=")
            if not separator:
                raise ValueError(f"line {number}: {line!r} is not key=value")
            properties[key.strip()] = value.strip()
    return properties
