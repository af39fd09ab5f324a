"""One KRaft replica: inputs in, effects out."""

from __future__ import annotations

from node.core.config import LogState as LogState
from node.core.config import ReplicaConfig as ReplicaConfig
from node.core.config import Rng as Rng

