"""Apache Kafka's nodes as they are configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contracts.abilities import Finalizes
from harness.contracts.environment import Address
from harness.envs.local.plugin import Local
from harness.healing.journal import Journal
from harness.registry import systems
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir
from harness.systems.kafka.plugin import Kafka, why_not
from harness.systems.kafka.releases import UPGRADE, VERSION
from harness.systems.nodes.levels import METADATA_SETTING

PATIENCE = "initial.broker.registration.timeout.ms"  # 1 minute by itself; then the broker ends


class Addressed(Local):
    """An environment whose nodes have addresses before it is set up."""

    def bind_address(self, node: str) -> Address:
        """Give all of them one."""
        del node
        return Address("10.0.0.1", 9093)

    address = bind_address


def test_a_broker_outlasts_a_quorum_that_faults_keep_down(tmp_path: Path) -> None:
    """Seen under --nemesis all: it ended by itself after a minute, and that passed for a crash."""
    spec = RunSpec(1, system="kafka", workload="producer-ids", voters=1, observers=1)
    journal = Journal.open("settings", folder=tmp_path / "state")
    kafka = Kafka(spec, Addressed(tmp_path / "run", journal), RunDir(tmp_path))
    journal.close()
    assert int(kafka._own("n2", 2)[PATIENCE]) >= 600_000
    assert PATIENCE not in kafka._own("n1", 1), "a controller has no use for it"


@pytest.mark.parametrize(
    ("version", "offered", "refused"),
    [
        ("3.3.2", {"register", "isr", "admin"}, {"levels", "directories", "elr", "describe"}),
        ("3.4.1", {"producer-ids", "isr", "admin"}, {"levels", "directories", "security"}),
        ("3.6.2", {"producer-ids", "reassign"}, {"elr", "cordons", "security", "membership"}),
        ("3.6.2,3.7.2", {"producer-ids", "reassign"}, {"levels", "admin"}),
        ("3.7.2", {"levels", "directories", "security"}, {"membership"}),
    ],
)
def test_a_release_is_offered_the_workloads_that_its_controllers_serve(
    version: str, offered: set[str], refused: set[str]
) -> None:
    first, _, later = version.partition(",")
    spec = RunSpec(1, system="kafka", env=SIM, settings={VERSION: first, UPGRADE: later})
    workloads = systems.traits("kafka").of(spec).workloads or frozenset()
    assert workloads >= offered
    assert not workloads & refused


def test_a_level_is_finalised_where_all_controllers_say_what_they_know() -> None:
    def reason(version: str) -> str | None:
        settings = {VERSION: version, METADATA_SETTING: "3.5"}
        spec = RunSpec(1, system="kafka", env=SIM, workload="producer-ids", settings=settings)
        return why_not(Finalizes, spec)

    assert reason("3.6.2") == "simulated controllers of 3.6.2 cannot say which levels they know"
    assert reason("3.7.2") is None
