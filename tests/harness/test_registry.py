"""Registries: names, descriptions, mistakes, outside plug-ins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.contracts.meaning import Meaning
from harness.contracts.traits import SystemTraits
from harness.errors import HarnessError, UnknownPluginError
from harness.registry import Registry
from harness.spec import RunSpec


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[None]:
    folder = tmp_path / "some_faults"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [n for n in sys.modules if n.startswith("some_faults")]:
        monkeypatch.delitem(sys.modules, name)
    return Registry("nemesis", "some_faults", None)


def kill() -> None:
    """Kills a node.

    And more.
    """


def pause() -> None:
    """Freezes a node."""


def test_plugins_are_found_by_name(registry: Registry[None]) -> None:
    registry.register("pause")(pause)
    registry.register("kill")(kill)
    registry.register("kill")(kill)  # the same again is no conflict
    assert registry.names() == ["kill", "pause"]
    assert registry.get("kill") is kill
    assert registry.describe("kill") == "Kills a node."
    assert dict(registry) == {"kill": kill, "pause": pause}


def test_a_plugin_that_is_there_is_had_without_importing_the_others(
    registry: Registry[None], tmp_path: Path
) -> None:
    (tmp_path / "some_faults" / "flood.py").write_text('"""A module."""\n')
    registry.register("kill")(kill)

    assert registry.get("kill") is kill
    assert "some_faults.flood" not in sys.modules


def test_an_unknown_name_says_what_was_meant(registry: Registry[None]) -> None:
    registry.register("pause")(pause)
    registry.register("kill")(kill)
    with pytest.raises(UnknownPluginError, match="no nemesis is called 'kil': did you mean 'kill'"):
        registry.get("kil")
    with pytest.raises(UnknownPluginError, match="there are: kill, pause"):
        registry.get("zzzzz")


def test_two_plugins_of_one_name_are_refused(registry: Registry[None]) -> None:
    registry.register("kill")(kill)
    with pytest.raises(HarnessError, match="two nemesis plug-ins are called 'kill'"):
        registry.register("kill")(pause)


def test_a_plugin_must_say_what_it_does(registry: Registry[None]) -> None:
    with pytest.raises(HarnessError, match="'quiet' has no docstring"):
        registry.register("quiet")(lambda: None)


def test_a_new_file_in_the_folder_is_a_new_plugin(registry: Registry[None], tmp_path: Path) -> None:
    (tmp_path / "some_faults" / "flood.py").write_text('"""A module."""\nLOADED = True\n')
    registry.load()
    assert sys.modules["some_faults.flood"].LOADED


def test_a_plugin_that_cannot_be_imported_is_loud_every_time(
    registry: Registry[None], tmp_path: Path
) -> None:
    (tmp_path / "some_faults" / "broken.py").write_text("import no_such_module\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            registry.names()


@dataclass(frozen=True)
class Traits:
    weight: int = 1
    why_not: str = ""


def test_what_is_known_before_a_plugin_is_used_is_said_where_it_registers() -> None:
    of_kind = Registry("fault", "no_such_folder", Traits())
    of_kind.register("kill", Traits(weight=3))(kill)
    of_kind.register("pause")(pause)
    assert [of_kind.traits(name).weight for name in ("kill", "pause")] == [3, 1]


def test_traits_as_attributes_of_a_plugin_are_refused_for_nobody_would_read_them() -> None:
    of_kind = Registry("fault", "no_such_folder", Traits())

    class Heavy:
        """Says for itself how heavy it is."""

        weight = 3

        def why_not(self) -> None: ...  # that one may be there: it tells of what was set up

    with pytest.raises(HarnessError, match=r"'heavy' has weight as attributes: .* Traits"):
        of_kind.register("heavy")(Heavy)


def test_a_system_that_says_nothing_takes_all_and_leaves_nothing() -> None:
    traits = SystemTraits()
    traits.check_settings({"any": "thing"})
    assert (traits.leaves, traits.workloads, traits.envs) == (frozenset(), None, None)
    assert list(traits.mutants()) == []
    assert traits.why_not(object, RunSpec(seed=1)) is None


def test_a_plugin_says_which_invariants_it_judges(registry: Registry[None]) -> None:
    one, two = (Meaning(name, "It holds.", "It matters.", "us") for name in ("X1", "X2"))
    registry.register("kill", judges=(one, two))(kill)
    registry.register("pause", judges=(one,))(pause)

    assert registry.judges("kill") == (one, two)
    assert registry.judges("pause") == (one,)
    assert registry.meanings() == [one, two]


def test_two_plugins_do_not_mean_different_things_by_one_name(registry: Registry[None]) -> None:
    registry.register("kill", judges=(Meaning("X1", "It holds.", "It matters.", "us"),))(kill)
    with pytest.raises(HarnessError, match="'pause' has another Meaning for X1"):
        registry.register("pause", judges=(Meaning("X1", "It may.", "It may.", "us"),))(pause)
    assert registry.names() == ["kill"]
