"""The inputs of a broker's lifecycle, and the effects that it wants run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from node.broker.states import BrokerState
from node.controller.broker_operations import BrokerHeartbeatRequest, BrokerRegistrationRequest

# --------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: what is due happens."""


@dataclass(frozen=True, slots=True)
class Start:
    """The process is up and can reach the controllers: register."""


@dataclass(frozen=True, slots=True)
class RegistrationAnswered:
    """The controller answered a ``SendRegistration``; ``error`` is Kafka's code, 0 = none."""

    error: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The controller answered a ``SendHeartbeat``; ``error`` is Kafka's code, 0 = none."""

    error: int
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The request in flight got no answer: no controller, refused, reset, timed out."""

    reason: str


@dataclass(frozen=True, slots=True)
class MetadataPublished:
    """The image holds all records up to ``offset`` (inclusive; the last contained one)."""

    offset: int


@dataclass(frozen=True, slots=True)
class ReadyToUnfence:
    """The broker can serve: all publishers have seen the metadata, its log is recovered."""


@dataclass(frozen=True, slots=True)
class BeginControlledShutdown:
    """Stop, and let the controller move leaderships away first if there is something to move."""


@dataclass(frozen=True, slots=True)
class BeginShutdown:
    """Stop at once, without asking."""


Input = (
    Tick
    | Start
    | RegistrationAnswered
    | HeartbeatAnswered
    | SendFailed
    | MetadataPublished
    | ReadyToUnfence
    | BeginControlledShutdown
    | BeginShutdown
)

# --------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class SendRegistration:
    """Send to the active controller; answer with ``RegistrationAnswered`` or ``SendFailed``."""

    request: BrokerRegistrationRequest


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send to the active controller; answer with ``HeartbeatAnswered`` or ``SendFailed``."""

    request: BrokerHeartbeatRequest


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The broker is in another state; ``name`` is KIP-500's."""

    from_: BrokerState
    to: BrokerState
    name: str


@dataclass(frozen=True, slots=True)
class Registered:
    """The controller knows this incarnation under that epoch."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The metadata is caught up with for the first time: recover, then step ``ReadyToUnfence``."""


@dataclass(frozen=True, slots=True)
class Unfenced:
    """The cluster may use this broker (again)."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """The cluster does not use this broker any more: the controller said so, or it must fear it."""

    broker_epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class Traced:
    """One event for the trace: ``reg``, ``hb``, ``fence`` or ``bstate``."""

    type: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end; the process may go. ``clean``: with the controller's consent."""

    clean: bool


@dataclass(frozen=True, slots=True)
class Fatal:
    """The broker can never join this cluster: the process must say why and die."""

    reason: str


Effect = (
    SendRegistration
    | SendHeartbeat
    | StateChanged
    | Registered
    | CaughtUp
    | Unfenced
    | Fenced
    | Traced
    | Stopped
    | Fatal
)
