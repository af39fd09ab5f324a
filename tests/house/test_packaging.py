"""The distribution: what is in the wheel, whose the top-level names are, what commands it has."""

from __future__ import annotations

import re
import zipfile
from importlib.metadata import distribution, entry_points, packages_distributions

import hatchling.build
import pytest

from tests.support.commands.source import modules, packages, project, tracked
from tests.support.places import ROOT

DISTRIBUTION = "krucible"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = hatchling.build.build_wheel(str(folder))
    with zipfile.ZipFile(folder / name) as archive:
        return archive


def test_the_wheel_holds_all_our_source_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tops = {name.partition("/")[0] for name in inside}
    assert tops == set(packages())
    ours = {str(path.relative_to(ROOT)) for path in modules()}
    assert {name for name in inside if name.endswith(".py")} == ours
    assert not [name for name in inside if "__pycache__" in name]


def test_the_wheel_holds_what_the_report_is_made_of(wheel: zipfile.ZipFile) -> None:
    templates = {
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.is_relative_to(ROOT / "reports" / "templates")
    }
    assert templates
    assert templates <= set(wheel.namelist())


def test_the_wheel_is_an_application_for_its_own_environment(wheel: zipfile.ZipFile) -> None:
    [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    assert metadata.startswith(f"{DISTRIBUTION}-")
    assert "Private :: Do Not Upload" in project()["project"]["classifiers"]
    assert project()["tool"]["check-wheel-contents"]["toplevel"] == packages()
    assert project()["tool"]["importlinter"]["root_packages"] == packages()


def test_nobody_else_owns_our_top_level_names() -> None:
    owners = packages_distributions()
    for name in packages():
        assert set(owners.get(name, [DISTRIBUTION])) == {DISTRIBUTION}


def test_commands_are_installed() -> None:
    scripts = {point.name: point.value for point in distribution(DISTRIBUTION).entry_points}
    assert scripts == project()["project"]["scripts"]
    for point in entry_points(group="console_scripts"):
        if point.name in scripts:
            assert callable(point.load())


def test_entry_point_groups_carry_our_name() -> None:
    registry = (ROOT / "harness" / "registry.py").read_text(encoding="utf-8")
    assert re.findall(r'group=f?"(\w+)\.', registry) == [DISTRIBUTION]


def test_every_folder_of_source_is_a_package() -> None:
    folders = {path.parent for path in modules()}
    missing = [f.relative_to(ROOT) for f in folders if not (f / "__init__.py").is_file()]
    assert not missing
