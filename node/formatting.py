"""Formats a node's directory: whose it is, and the beginning of its quorum and its cluster.

A quorum is static (``controller.quorum.voters``, kraft.version 0), or its voters are in the log
(kraft.version 1). Then a controller is formatted in one of three ways, with all controllers of a
cluster formatted alike: with the initial voters, alone (standalone), or without (it is an
observer until it is added). Source: Kafka's Formatter and StorageTool; KIP-853.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from node.config import ConfigError, NodeConfig
from node.core.types import KRAFT_VERSIONS, Listener, ReplicaKey, Voter, VoterSet
from node.driver.bootstrap import save_bootstrap
from node.log.disk import Disk
from node.log.layout import uuid_from_text
from node.log.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    format_directory,
    is_reserved,
    load_meta_properties,
    random_id,
)
from node.log.snapshots import write_bootstrap_snapshot
from node.metadata.features import FEATURES, KRAFT_VERSION, METADATA_VERSION, default_features
from node.properties import endpoint, non_negative

_VOTER = "id@host:port:directory-id"
_RESERVED = "is a reserved id: leave the directory id out, or draw one"


@dataclass(frozen=True, slots=True)
class Quorum:
    """The beginning of the quorum: at most one of the three is given."""

    initial_controllers: str | None = None
    standalone: bool = False
    no_initial_controllers: bool = False

    @property
    def given(self) -> list[str]:
        """The options that are given, as on the command line."""
        options = {
            "--initial-controllers": self.initial_controllers is not None,
            "--standalone": self.standalone,
            "--no-initial-controllers": self.no_initial_controllers,
        }
        return [name for name, is_given in options.items() if is_given]


def format_node(
    disk: Disk,
    config: NodeConfig,
    *,
    cluster_id: str,
    directory_id: UUID | None = None,
    quorum: Quorum | None = None,
    features: Mapping[str, int] | None = None,
    timestamp_ms: int,
) -> MetaProperties:
    """Make the log directory of ``config`` the node's own; the last file makes it so.

    Args:
        disk: Where.
        config: The node.
        cluster_id: The same for all nodes of a cluster.
        directory_id: None = that of the initial controllers if the node is one, else random.
        quorum: How a dynamic quorum begins; none for a static one and for brokers.
        features: Levels that are not the defaults.
        timestamp_ms: The time, in ms since 1970.

    Raises:
        ConfigError: The options contradict each other or the configuration.
        MetaPropertiesError: The directory is somebody's already.
    """
    quorum = quorum or Quorum()
    _check_cluster_id(cluster_id)
    _check_quorum(config, quorum)
    _check_empty(disk, config.log_dir)
    levels = feature_levels(features or {})
    voters: VoterSet | None = None
    if quorum.initial_controllers is not None:
        voters = initial_controllers(quorum.initial_controllers, config)
        directory_id = _own_directory(voters, config, directory_id)
    directory_id = directory_id or random_id(_rng(config, timestamp_ms))
    if quorum.standalone:
        voters = VoterSet.of(_self(config, directory_id))
    disk.make_dirs(config.log_dir)
    if config.is_controller and voters is not None:
        write_bootstrap_snapshot(disk, config.log_dir, voters, timestamp_ms=timestamp_ms)
    save_bootstrap(disk, config.log_dir, levels)
    return format_directory(
        disk,
        config.log_dir,
        cluster_id=cluster_id,
        node_id=config.node_id,
        directory_id=directory_id,
    )


def feature_levels(wanted: Mapping[str, int]) -> dict[str, int]:
    """The levels of a new cluster: the defaults, but for those of ``wanted``; ConfigError."""
    for name, level in wanted.items():
        feature = FEATURES.get(name)
        if feature is None or name == KRAFT_VERSION:
            known = ", ".join(sorted(FEATURES.keys() - {KRAFT_VERSION}))
            raise ConfigError(f"--feature {name}={level}: want one of {known}")
        if not feature.lowest <= level <= feature.highest:
            raise ConfigError(
                f"--feature {name}={level}: want a level from {feature.lowest} to {feature.highest}"
            )
    base = (
        default_features(wanted[METADATA_VERSION])
        if METADATA_VERSION in wanted
        else default_features()
    )
    return {name: level for name, level in (base | dict(wanted)).items() if level}


def initial_controllers(text: str, config: NodeConfig) -> VoterSet:
    """Read id@host:port:directory-id,...; raises ConfigError."""
    voters: list[Voter] = []
    for part in text.split(","):
        node_id, _, rest = part.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        try:
            key = ReplicaKey(non_negative(node_id), directory_of(directory))
            listener = Listener(config.controller_listener_names[0], endpoint(address))
        except ValueError as error:
            raise ConfigError(
                f"--initial-controllers {part.strip()!r}: {error}; want {_VOTER}"
            ) from error
        voters.append(_voter(key, (listener,)))
    keys = [voter.key for voter in voters]
    if len({key.id for key in keys}) < len(keys) or len({k.directory_id for k in keys}) < len(keys):
        raise ConfigError("--initial-controllers: a node id or a directory id stands twice")
    return VoterSet.of(*voters)


def _rng(config: NodeConfig, timestamp_ms: int) -> Random:
    """A disk that replaces a lost one is another replica, so the seed alone must not decide."""
    seed = config.seed
    return Random(None if seed is None else f"{seed}/{config.node_id}/{timestamp_ms}")


def _check_cluster_id(cluster_id: str) -> None:
    if not cluster_id or cluster_id != cluster_id.strip() or not cluster_id.isprintable():
        raise ConfigError(f"--cluster-id {cluster_id!r}: want some text without spaces around it")


def directory_of(text: str) -> UUID:
    """The directory id of a text; raises ValueError."""
    directory_id = uuid_from_text(text)
    if is_reserved(directory_id):
        raise ValueError(f"{text!r} {_RESERVED}")
    return directory_id


def _check_quorum(config: NodeConfig, quorum: Quorum) -> None:
    given = quorum.given
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} exclude each other")
    if given and len(config.voters):
        raise ConfigError(
            f"{given[0]} makes a dynamic quorum, but controller.quorum.voters is set: "
            "a quorum is static or dynamic, never both"
        )
    if not config.is_controller and given and not quorum.no_initial_controllers:
        raise ConfigError(f"{given[0]}: the node has no controller role")
    if config.is_controller and not given and not len(config.voters):
        raise ConfigError(
            "controller.quorum.voters is not set: a controller of a dynamic quorum is formatted "
            "with --initial-controllers, --standalone or --no-initial-controllers"
        )


def _check_empty(disk: Disk, log_dir: Path) -> None:
    existing = load_meta_properties(disk, log_dir)
    if existing is not None:
        raise MetaPropertiesError(
            f"{log_dir} is formatted already for node {existing.node_id} of cluster "
            f"{existing.cluster_id!r}: empty it first if it is to be used anew"
        )


def _own_directory(voters: VoterSet, config: NodeConfig, given: UUID | None) -> UUID:
    """The directory id that the initial voters name for this node."""
    own = voters.voters.get(config.node_id)
    if own is None or own.key.directory_id is None:
        raise ConfigError(
            f"--initial-controllers names nodes {list(voters.ids)}, not this one, {config.node_id}"
        )
    if given is not None and given != own.key.directory_id:
        raise ConfigError("--directory-id is not the one that --initial-controllers names")
    if own.endpoint not in [listener.advertised for listener in config.controller_listeners]:
        raise ConfigError(
            f"--initial-controllers has node {config.node_id} at {own.endpoint}, which is none of "
            "its advertised controller listeners"
        )
    return own.key.directory_id


def _self(config: NodeConfig, directory_id: UUID) -> Voter:
    return _voter(ReplicaKey(config.node_id, directory_id), config.voter_listeners)


def _voter(key: ReplicaKey, listeners: Sequence[Listener]) -> Voter:
    return Voter(key, listeners[0].endpoint, tuple(listeners), KRAFT_VERSIONS)
