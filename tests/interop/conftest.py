"""Apache Kafka for the tests of this folder; where it cannot be had they say so, loudly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.systems.kafka import distribution as kafka_dist
from harness.systems.kafka.distribution import KafkaDist, KafkaMissingError
from tests.support.kafka.toolbox import toolbox_of
from tests.support.kafka.tools import KafkaTools

_MISSING = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaDist]:
    """Kafka from the cache, or fetched into it."""
    try:
        dist = kafka_dist.fetch()
    except KafkaMissingError as error:
        request.config.stash[_MISSING] = str(error)
        if os.environ.get(kafka_dist.REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{kafka_dist.REQUIRE_VARIABLE}=1, but {error}", pytrace=False)
        pytest.skip(f"no Apache Kafka here: {error}")
    yield dist
    toolbox_of(dist).close()


@pytest.fixture(scope="module")
def tools(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    """Kafka's command line tools."""
    return KafkaTools(kafka, tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the cluster that the tests of a module share."""
    return tmp_path_factory.mktemp("cluster")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """One line that cannot be overlooked."""
    if missing := config.stash.get(_MISSING, None):
        terminalreporter.write_line(
            f"NOT PROVEN against Apache Kafka: {missing}", yellow=True, bold=True
        )
