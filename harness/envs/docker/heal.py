"""Undo what the docker environment left: containers, networks and firewall rules, all labelled.

The journal knows each by the name we gave it before it was made. As a second net everything
carries labels that say whose it is: an Engine may still finish a request of a harness that was
killed, and then no journal knows of it any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.envs.docker.agents import RefusedError, answered, ordering
from harness.envs.docker.engine import Engine, EngineError, engine_host, knock
from harness.errors import EnvError
from harness.healing.heal import Leftover, clears, sweeps, undoes
from harness.healing.journal import Journal, is_orphaned

RUN_LABEL = "krucible.run"
_PREFIX = "krucible."
_OWNER = ("run", "harness", "place", "boot", "state")


def labels(journal: Journal) -> dict[str, str]:
    """The labels of everything that belongs to a run."""
    return {_PREFIX + key: value for key, value in journal.owner().items()}


@undoes("container")
def _remove_container(run: str, what: Mapping[str, Any]) -> str:
    name = str(what["name"])
    with _engine(what) as engine:
        return "removed" if _is_ours(engine, name, run) and engine.remove(name) else "already gone"


@undoes("freeze")
def _unpause(run: str, what: Mapping[str, Any]) -> str:
    name = str(what["name"])
    with _engine(what) as engine:
        return "thawed" if _is_ours(engine, name, run) and engine.unpause(name) else "already gone"


@undoes("rules")
def _flush(run: str, what: Mapping[str, Any]) -> str:
    """Have the agents that the run put into its holders take out what they have installed."""
    if "agent" not in what:  # an older krucible's
        return "the rules go with their containers"
    done = 0
    place = {"chain": str(what["chain"]), "qdisc": int(what["qdisc"])}
    with _engine(what) as engine:
        for name in what["containers"]:
            if not _is_ours(engine, name, run):
                continue
            try:
                answered(*engine.execute(name, ordering(Path(what["agent"]), "remove", **place)))
            except (EngineError, RefusedError) as error:
                if engine.runs(name):  # else it went meanwhile, with its rules
                    raise EnvError(
                        f"cannot remove the chain {what['chain']} in container {name}: {error}"
                    ) from error
            else:
                done += 1
    return f"flushed in {done} containers" if done else "the rules went with their containers"


@undoes("network")
def _remove_network(run: str, what: Mapping[str, Any]) -> str:
    with _engine(what) as engine:
        ours = [n for n in engine.networks(f"{RUN_LABEL}={run}") if n["Name"] == what["name"]]
        return "removed" if [n for n in ours if engine.remove_network(n["Id"])] else "already gone"


@sweeps
def sweep(folder: Path | None, only_run: str | None, *, heal: bool) -> list[Leftover]:
    """Find what is labelled as ours and whose harness is dead; with ``heal``, remove it."""
    host = engine_host()
    try:
        knock(host)
    except OSError:
        return []  # no Engine here, no containers; what a journal knows is told by its entries
    with contextlib.closing(Engine.connect(host)) as engine:

        def is_wanted(found: Mapping[str, Any]) -> bool:
            owner = owner_of(found)
            return (
                only_run in (None, owner["run"])
                and (folder is None or Path(owner["state"]).resolve() == folder.resolve())
                and is_orphaned(owner)
            )

        return _clear(engine, is_wanted, heal=heal)


@clears
def clear_run(run: str, folder: Path) -> list[Leftover]:
    """Remove the run's containers and network, though its harness lives."""

    def is_of_run(found: Mapping[str, Any]) -> bool:
        owner = owner_of(found)
        return owner["run"] == run and Path(owner["state"]).resolve() == folder.resolve()

    with contextlib.closing(Engine.connect()) as engine:
        return _clear(engine, is_of_run)


def _clear(
    engine: Engine, is_wanted: Callable[[Mapping[str, Any]], bool], *, heal: bool = True
) -> list[Leftover]:
    """Remove the labelled containers, and then networks, that are wanted; what became of each."""
    found = []
    kinds: tuple[tuple[str, Any, Callable[[str], bool]], ...] = (
        ("container", engine.containers(RUN_LABEL), engine.remove),
        ("network", engine.networks(RUN_LABEL), engine.remove_network),
    )
    for kind, things, remove in kinds:
        for thing in filter(is_wanted, things):
            what = {"name": (thing.get("Names") or [thing.get("Name")])[0].lstrip("/")}
            action, done = "left", False
            if heal:
                try:
                    action, done = ("removed" if remove(thing["Id"]) else "already gone"), True
                except EngineError as error:
                    action = str(error)
            found.append(Leftover(owner_of(thing)["run"], f"labelled {kind}", what, action, done))
    return found


def owner_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Read from its labels which harness owns a container or network; missing labels are empty."""
    marked = found.get("Labels") or {}
    return {key: str(marked.get(_PREFIX + key, "")) for key in _OWNER}


def _is_ours(engine: Engine, name: str, run: str) -> bool:
    """Tell whether the container of this name is the run's; another run may use the name now."""
    found = engine.inspect(name)
    return found is not None and found["Config"]["Labels"].get(RUN_LABEL) == run


@contextlib.contextmanager
def _engine(what: Mapping[str, Any]) -> Iterator[Engine]:
    with contextlib.closing(Engine.connect(str(what.get("engine") or engine_host()))) as engine:
        yield engine
