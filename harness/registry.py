"""Plug-ins by name: built-in ones are the modules of a folder, outside ones entry points.

A plug-in registers itself where it is defined::

    from harness.registry import nemeses

    @nemeses.register("pause")
    class Pause: ...

Nothing else is edited: ``load`` imports every module of the kind's folder, of folders in it their
module ``plugin``, then every entry point of the group ``krucible.<kind>``. The first line of the
plug-in's docstring is its description.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

from harness.contracts.meaning import Meaning
from harness.contracts.released import ReleasedBug
from harness.contracts.traits import EnvironmentTraits, SystemTraits, WorkloadTraits
from harness.errors import HarnessError, UnknownPluginError

BOTH = frozenset({"why_not"})  # said of all runs as a trait, and by what was set up as an ability

P = TypeVar("P")
T = TypeVar("T")


class Registry(Generic[T]):
    """The plug-ins of one kind; ``traits`` are those of a plug-in that says nothing of itself."""

    def __init__(self, kind: str, package: str, traits: T) -> None:
        self.kind = kind
        self._package = package
        self._nothing_said = traits
        self._traits: dict[str, T] = {}
        self._plugins: dict[str, Any] = {}
        self._needs: dict[str, frozenset[str]] = {}
        self._judges: dict[str, tuple[Meaning, ...]] = {}
        self._meanings: dict[str, Meaning] = {}
        self._loaded = False

    def register(
        self,
        name: str,
        traits: T | None = None,
        *,
        needs: Sequence[str] = (),
        judges: Sequence[Meaning] = (),
    ) -> Callable[[P], P]:
        """Decorate a class or function to make it the plug-in ``name``.

        Args:
            name: What it is called on the command line.
            traits: What is known of it before it is used, for kinds that have such.
            needs: For a checker, what a run must leave behind for it: events, records, output.
            judges: For a checker or model, the invariants that its anomalies may name.
        """

        def add(plugin: P) -> P:
            if name in self._plugins and self._plugins[name] is not plugin:
                raise HarnessError(
                    f"two {self.kind} plug-ins are called {name!r}: "
                    f"{self._plugins[name]} and {plugin}"
                )
            if said := self._said_by_itself(plugin):
                raise HarnessError(
                    f"{self.kind} plug-in {name!r} has {', '.join(said)} as attributes: give them "
                    f"where it registers, as {type(self._nothing_said).__name__}"
                )
            if not inspect.getdoc(plugin):
                raise HarnessError(
                    f"{self.kind} plug-in {name!r} has no docstring: say what it does"
                )
            for meaning in judges:
                if self._meanings.setdefault(meaning.name, meaning) != meaning:
                    raise HarnessError(
                        f"{self.kind} plug-in {name!r} has another Meaning for {meaning.name}: "
                        "use that of the plug-in that judges it already"
                    )
            self._plugins[name] = plugin
            self._judges[name] = tuple(judges)
            self._traits[name] = self._nothing_said if traits is None else traits
            self._needs[name] = frozenset(needs)
            return plugin

        return add

    def _said_by_itself(self, plugin: object) -> list[str]:
        """The traits that a plug-in has as attributes, where nobody looks for them."""
        traits = self._nothing_said
        if traits is None or not is_dataclass(traits):
            return []
        names = (field.name for field in fields(traits) if field.name not in BOTH)
        return [name for name in names if hasattr(plugin, name)]

    def load(self) -> None:
        """Import all modules of the folder and all entry points; idempotent."""
        if self._loaded:
            return
        self._loaded = True  # from here on: a plug-in may ask for names while it is imported
        try:
            package = importlib.import_module(self._package)
            for name in sorted(_modules(package)):
                importlib.import_module(name)
            for point in entry_points(group=f"krucible.{self.kind}"):
                point.load()
        except BaseException:
            self._loaded = False  # half a list must not pass for the whole
            raise

    def load_beside(self, name: str) -> None:
        """Import the modules of that name, however deep they lie in the folder; idempotent.

        For what plug-ins bring beside themselves, and what is wanted without them.
        """
        package = importlib.import_module(self._package)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2] == name:
                importlib.import_module(module.name)

    def names(self) -> list[str]:
        """All names, sorted."""
        self.load()
        return sorted(self._plugins)

    def get(self, name: str) -> Any:
        """The plug-in of that name; the others are imported only where it is not yet known.

        Raises:
            UnknownPluginError: With the nearest names.
        """
        if name in self._plugins:
            return self._plugins[name]
        self.load()
        try:
            return self._plugins[name]
        except KeyError:
            raise UnknownPluginError(unknown(self.kind, name, self.names())) from None

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, self._plugins[name]) for name in self.names())

    def traits(self, name: str) -> T:
        """Tell what the plug-in has said of itself; raises UnknownPluginError."""
        self.get(name)
        return self._traits[name]

    def needs(self, name: str) -> frozenset[str]:
        """Tell what the plug-in said it needs."""
        self.get(name)
        return self._needs[name]

    def judges(self, name: str) -> tuple[Meaning, ...]:
        """The invariants that the plug-in said it judges."""
        self.get(name)
        return self._judges[name]

    def meanings(self) -> list[Meaning]:
        """All invariants that plug-ins of this kind judge, each once."""
        self.load()
        return list(self._meanings.values())

    def describe(self, name: str) -> str:
        """First line of the plug-in's docstring."""
        return (inspect.getdoc(self.get(name)) or "").splitlines()[0]


def _modules(package: ModuleType) -> Iterator[str]:
    """The modules of a folder of plug-ins: files, and ``plugin`` of folders that have one.

    A folder without one holds what helps the plug-ins.
    """
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.ispkg:
            yield module.name
        elif importlib.util.find_spec(f"{module.name}.plugin") is not None:
            yield f"{module.name}.plugin"


def unknown(kind: str, name: str, names: list[str]) -> str:
    """One line that says a name is unknown and which were meant."""
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"there are: {', '.join(names)}"
    )
    return f"no {kind} is called {name!r}: {hint}"


systems = Registry("system", "harness.systems", SystemTraits())
environments = Registry("environment", "harness.envs", EnvironmentTraits())
nemeses = Registry("nemesis", "nemesis", None)
workloads = Registry("workload", "workloads", WorkloadTraits())
checkers = Registry("checker", "checkers", None)
models = Registry("model", "checkers.models", None)
watches = Registry(
    "watch", "checkers.watches", None
)  # of simulations: factory(spec, faults, read) -> Watch


def mutants_of(system: str) -> list[dict[str, Any]]:
    """The seeded bugs that a system offers: objects with ``name``, ``description``, ``breaks``."""
    return list(systems.traits(system).mutants())


def mutant_names(system: str) -> list[str]:
    """Names of the seeded bugs that a system offers."""
    return [mutant["name"] for mutant in mutants_of(system)]


def released_bugs() -> list[tuple[str, ReleasedBug]]:
    """The bugs that were in releases of systems, each with the name of its system."""
    return [(name, bug) for name in systems.names() for bug in systems.traits(name).released()]
