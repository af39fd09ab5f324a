"""Registries: names, descriptions, mistakes, outside plug-ins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import HarnessError, UnknownPluginError
from harness.registry import Registry, systems


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    folder = tmp_path / "some_faults"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [n for n in sys.modules if n.startswith("some_faults")]:
        monkeypatch.delitem(sys.modules, name)
    return Registry("nemesis", "some_faults")


def kill() -> None:
    """Kills a node.

    And more.
    """


def pause() -> None:
    """Freezes a node."""


def test_plugins_are_found_by_name(registry: Registry) -> None:
    registry.register("pause")(pause)
    registry.register("kill")(kill)
    registry.register("kill")(kill)  # the same again is no conflict
    assert registry.names() == ["kill", "pause"]
    assert registry.get("kill") is kill
    assert registry.describe("kill") == "Kills a node."
    assert dict(registry) == {"kill": kill, "pause": pause}


def test_a_plugin_that_is_there_is_had_without_importing_the_others(
    registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "some_faults" / "flood.py").write_text('"""A module."""\n')
    registry.register("kill")(kill)

    assert registry.get("kill") is kill
    assert "some_faults.flood" not in sys.modules


def test_an_unknown_name_says_what_was_meant(registry: Registry) -> None:
    registry.register("pause")(pause)
    registry.register("kill")(kill)
    with pytest.raises(UnknownPluginError, match="no nemesis is called 'kil': did you mean 'kill'"):
        registry.get("kil")
    with pytest.raises(UnknownPluginError, match="there are: kill, pause"):
        registry.get("zzzzz")


def test_two_plugins_of_one_name_are_refused(registry: Registry) -> None:
    registry.register("kill")(kill)
    with pytest.raises(HarnessError, match="two nemesis plug-ins are called 'kill'"):
        registry.register("kill")(pause)


def test_a_plugin_must_say_what_it_does(registry: Registry) -> None:
    with pytest.raises(HarnessError, match="'quiet' has no docstring"):
        registry.register("quiet")(lambda: None)


def test_a_new_file_in_the_folder_is_a_new_plugin(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "some_faults" / "flood.py").write_text('"""A module."""\nLOADED = True\n')
    registry.load()
    assert sys.modules["some_faults.flood"].LOADED


def test_a_plugin_that_cannot_be_imported_is_loud_every_time(
    registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "some_faults" / "broken.py").write_text("import no_such_module\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            registry.names()


def test_atom_is_a_system() -> None:
    assert "atom" in systems.names()
    assert "in memory" in systems.describe("atom")
