"""The core is composed: each duty is a handler of its own, and none is built on another."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import fields
from pathlib import Path
from random import Random
from types import ModuleType

import node.core
from node.core.assembly import Handlers
from node.core.config import LogState, ReplicaConfig
from node.core.parts import CoreParts
from node.core.state import ReplicaState
from node.core.types import ElectionState, ReplicaKey
from tests.support.raft.one import endpoint, voter_set


def modules() -> list[ModuleType]:
    """Every module of the core."""
    found = pkgutil.walk_packages(node.core.__path__, "node.core.")
    return [importlib.import_module(each.name) for each in found]


def test_no_hook_waits_for_a_subclass() -> None:
    """``super()`` only makes an object; nothing raises NotImplementedError."""
    looked_at = {each.__name__: each for each in modules()}
    assert {"node.core.replica", "node.core.leader.fetches", "node.core.own_log"} <= set(looked_at)
    found = []
    for module in looked_at.values():
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                names = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
                hook = "super" in names and function.name != "__init__"
                if hook or "NotImplementedError" in names:
                    found.append(f"{module.__name__}.{function.name}")
    assert not found


def test_a_replica_is_built_of_its_parts_and_of_nothing_else() -> None:
    """Each class among the parts can be replaced: it is what the handlers are made from."""

    def sick(cls: type) -> type:
        return type(f"Sick{cls.__name__}", (cls,), {})

    parts = CoreParts(
        **{each.name: sick(getattr(CoreParts(), each.name)) for each in fields(CoreParts)}
    )
    config = ReplicaConfig(ReplicaKey(1), "bench", voter_set(3), endpoint(1))
    state = parts.state(config, ElectionState(), LogState(), Random(1), parts.log)
    built = [state, state.log, *vars(Handlers(parts, state)).values()]
    assert isinstance(state, ReplicaState)
    assert {type(each) for each in built} == {getattr(parts, f.name) for f in fields(CoreParts)}


def test_every_event_has_the_listeners_that_exist_for_it() -> None:
    """A handler that has an ``on_left``, say, is told of it."""
    parts = CoreParts()
    config = ReplicaConfig(ReplicaKey(1), "bench", voter_set(3), endpoint(1))
    state = parts.state(config, ElectionState(), LogState(), Random(1), parts.log)
    handlers = vars(Handlers(parts, state)).values()
    for event in fields(state.events):
        told = list(getattr(state.events, event.name))
        able = [getattr(each, f"on_{event.name}", None) for each in handlers]
        assert told, event.name
        assert len(told) == len([each for each in able if each is not None])
        assert all(each in able for each in told)
