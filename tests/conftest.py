"""Options and profiles of the test run."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

TOGETHER = "tests/pipeline/"

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), derandomize=False)
settings.register_profile(
    "nightly", settings.get_profile("dev"), max_examples=2_000, stateful_step_count=150
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden traces be written anew, after a look at the diff; and take the time for more."""
    parser.addoption("--rewrite", action="store_true", help="regenerate golden files")
    parser.addoption(
        "--long", action="store_true", help="also the tests marked long: minutes to hours each"
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be regenerated."""
    return bool(request.config.getoption("--rewrite"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A worker more than there are cores: tests with real processes wait a third of their time."""
    return (os.cpu_count() or 1) + 1


class _Together(LoadFileScheduling):  # type: ignore[misc]
    """A file goes to one worker, and so do files of a folder whose tests share what starts slowly.

    Spark's JVM lives as long as the process that has started it.
    """

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Who gets which file, with ``--dist loadfile``."""
    return _Together(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, unless asked for, and see to it that no slow file is the last one.

    Files with slow tests begin while most of the quick ones are still to come: then both kinds run
    side by side all the time. The folder that one worker has to itself comes before all others.
    """
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    files = list(dict.fromkeys(item.path for item in items))
    place: dict[Path, float] = {}
    for kind, until in ((slow, 0.7), ({*files} - slow, 1.0)):
        ordered = [path for path in files if path in kind]
        place |= {path: until * n / len(ordered) for n, path in enumerate(ordered)}
    items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), place[item.path]))


def pytest_configure() -> None:
    """Listen to Ctrl-C again: tests send it, and a shell may have us ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
