"""The core is composed: each duty is a handler of its own, and none is built on another."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from dataclasses import fields
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

import node.core
from node.core.assembly import Handlers
from node.core.config import LogState, ReplicaConfig
from node.core.parts import CoreParts
from node.core.state import ReplicaState
from node.core.types import ElectionState, ReplicaKey
from tests.support.raft.one import endpoint, voter_set

CHAIN_MAX = 2


def modules() -> list[ModuleType]:
    """Every module of the core."""
    found = pkgutil.walk_packages(node.core.__path__, "node.core.")
    return [importlib.import_module(each.name) for each in found]


MODULES = modules()
everyone = pytest.mark.parametrize("module", MODULES, ids=[each.__name__ for each in MODULES])


def test_all_of_the_core_is_looked_at() -> None:
    names = {each.__name__ for each in MODULES}
    assert {"node.core.replica", "node.core.leader.fetches", "node.core.own_log"} <= names


@everyone
def test_no_chain_of_classes_is_deeper_than_two(module: ModuleType) -> None:
    for cls in vars(module).values():
        if inspect.isclass(cls) and cls.__module__ == module.__name__:
            ours = [each for each in cls.__mro__ if each.__module__.startswith("node.")]
            assert len(ours) <= CHAIN_MAX, [each.__name__ for each in ours]


@everyone
def test_no_hook_waits_for_a_subclass(module: ModuleType) -> None:
    """``super()`` only makes an object; nothing raises NotImplementedError."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            names = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
            assert "NotImplementedError" not in names, function.name
            assert "super" not in names or function.name == "__init__", function.name


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
