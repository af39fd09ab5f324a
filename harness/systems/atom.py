"""``atom``: a linearizable cluster in memory, with bugs that can be switched on.

The harness tests itself on it: no processes, no network, and a known right answer. It takes any
environment and uses none. Settings (``RunSpec.settings``):

================== ========================================================================
atom.bug           ``none``, or one of the bugs below
atom.bug-rate      share of the ops that could show the bug and do (default 0.05)
atom.latency-ms    mean time of an op, half of it before and half after its effect (default 1)
atom.info-rate     share of the writes whose answer is lost (default 0)
atom.fail-rate     share of the ops that are refused, without effect (default 0)
================== ========================================================================

Bugs: ``stale-read`` answers a read with a value overwritten before the read began;
``lost-write`` acknowledges a write and drops it; ``dirty-read`` refuses a write and applies it;
``two-winners`` lets a topic be created that exists; ``id-reuse`` gives a new topic a deleted
topic's id; ``half-create`` creates a topic without its configs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness import seeds
from harness.contracts.clients import Outcome, RegisterClient, TopicClient, TopicView
from harness.contracts.environment import Environment
from harness.contracts.traits import SystemTraits
from harness.errors import UsageError
from harness.registry import systems
from harness.spec import RunSpec
from harness.store.folder import RunDir

BUGS = (
    "none",
    "stale-read",
    "lost-write",
    "dirty-read",
    "two-winners",
    "id-reuse",
    "half-create",
)
SETTINGS = ("atom.bug", "atom.bug-rate", "atom.latency-ms", "atom.info-rate", "atom.fail-rate")


@dataclass(frozen=True, slots=True)
class AtomSettings:
    """The behaviour of the atom system."""

    bug: str = "none"
    bug_rate: float = 0.05
    latency_ms: float = 1.0
    info_rate: float = 0.0
    fail_rate: float = 0.0

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> AtomSettings:
        """Read the settings; raises UsageError that names the one at fault."""
        unknown = sorted(name for name in settings if name not in SETTINGS)
        if unknown:
            raise UsageError(f"unknown settings {unknown}; there are: {', '.join(SETTINGS)}")
        bug = settings.get("atom.bug", "none")
        if bug not in BUGS:
            raise UsageError(f"atom.bug is {bug!r}, want one of: {', '.join(BUGS)}")
        return cls(
            bug=bug,
            bug_rate=_number(settings, "atom.bug-rate", 0.05, most=1.0),
            latency_ms=_number(settings, "atom.latency-ms", 1.0, most=60_000.0),
            info_rate=_number(settings, "atom.info-rate", 0.0, most=1.0),
            fail_rate=_number(settings, "atom.fail-rate", 0.0, most=1.0),
        )


def _number(settings: Mapping[str, str], name: str, default: float, *, most: float) -> float:
    text = settings.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise UsageError(f"{name} is {text!r}, want a number from 0 to {most:g}")
    return value


@dataclass(slots=True)
class _State:
    """The content of the cluster, and the dice that decide about latency, losses and bugs."""

    settings: AtomSettings
    seed: int
    draws: int = 0
    registers: dict[str, int] = field(default_factory=dict)
    overwritten: dict[str, tuple[int | None, int]] = field(default_factory=dict)  # value, when
    topics: dict[str, TopicView] = field(default_factory=dict)
    deleted_ids: list[str] = field(default_factory=list)
    steps: int = 0  # counts effects: a logical time

    def unit(self) -> float:
        self.draws += 1
        return seeds.unit(self.seed, self.draws)

    def bug(self, name: str) -> bool:
        """Tell whether the bug of that name is on and shows this time."""
        return self.settings.bug == name and self.unit() < self.settings.bug_rate

    async def pause(self) -> None:
        """Half an op's time."""
        latency_ms = self.settings.latency_ms
        if latency_ms > 0:
            await asyncio.sleep(latency_ms * self.unit() / 1000)

    def refuse(self) -> None:
        """Raise the definite error that is due."""
        if self.settings.fail_rate and self.unit() < self.settings.fail_rate:
            raise Outcome("refused", definite=True)

    def lose_answer(self) -> None:
        """Raise the indefinite error that is due."""
        if self.settings.info_rate and self.unit() < self.settings.info_rate:
            raise Outcome("answer lost", definite=False)


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UsageError when the settings cannot be used."""
    AtomSettings.parse(settings)


@systems.register("atom", SystemTraits(check_settings=check_settings))
class AtomSystem:
    """Linearizable registers and topics in memory, with bugs that can be switched on."""

    name = "atom"

    def __init__(
        self, spec: RunSpec, environment: Environment | None, run_dir: RunDir | None
    ) -> None:
        del environment, run_dir  # it runs in the harness and leaves nothing behind
        self.voters, self.observers = spec.voter_names, spec.observer_names
        self.nodes = self.voters + self.observers
        settings = AtomSettings.parse(spec.settings)
        self._state = _State(settings, seeds.split(spec.seed, "atom"))

    async def setup(self) -> None:
        """Do nothing: there is nothing to start."""

    async def teardown(self) -> None:
        """Do nothing: there is nothing to stop."""

    async def await_recovery(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Return True at once: this system never goes away."""
        return True

    def collect(self) -> None:
        """Do nothing: there is nothing to copy."""

    def register_client(self) -> AtomRegisters:
        """A prototype register client."""
        return AtomRegisters(self._state)

    def topic_client(self) -> AtomTopics:
        """A prototype topic client."""
        return AtomTopics(self._state)


class AtomRegisters:
    """Registers of the atom system."""

    def __init__(self, state: _State) -> None:
        self._state = state

    async def open(self, node: str) -> RegisterClient:  # noqa: ARG002 - all nodes are one
        """A client; all nodes are the same."""
        return AtomRegisters(self._state)

    async def read(self, key: str) -> int | None:
        """Linearizable read, unless ``stale-read`` is on."""
        state = self._state
        began = state.steps
        await state.pause()
        state.refuse()
        value = state.registers.get(key)
        old = state.overwritten.get(key)
        # Only what was overwritten before this read began is stale; later is concurrency.
        if old is not None and old[1] <= began and state.bug("stale-read"):
            value = old[0]
        await state.pause()
        return value

    async def read_local(self, key: str) -> int | None:
        """Read as ``read`` does: there is only one copy."""
        return await self.read(key)

    async def write(self, key: str, value: int) -> None:
        """Write, unless a bug is on."""
        state = self._state
        await state.pause()
        state.refuse()
        if not state.bug("lost-write"):
            state.steps += 1
            state.overwritten[key] = (state.registers.get(key), state.steps)
            state.registers[key] = value
        if state.bug("dirty-read"):
            raise Outcome("refused", definite=True)
        await state.pause()
        state.lose_answer()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


class AtomTopics:
    """Topics of the atom system."""

    def __init__(self, state: _State, node: str = "") -> None:
        self._state = state
        self._node = node

    async def open(self, node: str) -> TopicClient:
        """A client; all nodes are the same."""
        return AtomTopics(self._state, node)

    async def create(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> str:
        """Create a topic, unless it exists."""
        state = self._state
        await state.pause()
        state.refuse()
        if name in state.topics and not state.bug("two-winners"):
            raise Outcome("TOPIC_ALREADY_EXISTS", definite=True)
        state.steps += 1
        topic_id = f"{seeds.split(state.seed, 'id', state.steps):032x}"
        if state.deleted_ids and state.bug("id-reuse"):
            topic_id = state.deleted_ids[-1]
        kept = {} if state.bug("half-create") else dict(configs)
        state.topics[name] = TopicView(topic_id, partitions, kept)
        await state.pause()
        state.lose_answer()
        return topic_id

    async def delete(self, name: str) -> None:
        """Delete a topic, if there is one."""
        state = self._state
        await state.pause()
        state.refuse()
        if name not in state.topics:
            raise Outcome("UNKNOWN_TOPIC_OR_PARTITION", definite=True)
        state.steps += 1
        state.deleted_ids.append(state.topics.pop(name).topic_id)
        await state.pause()
        state.lose_answer()

    async def describe(self, name: str) -> TopicView | None:
        """A linearizable look."""
        state = self._state
        await state.pause()
        state.refuse()
        view = state.topics.get(name)
        await state.pause()
        return view

    async def describe_local(self, name: str) -> tuple[str, TopicView | None]:
        """Look as ``describe`` does: there is only one copy."""
        return self._node, await self.describe(name)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""
