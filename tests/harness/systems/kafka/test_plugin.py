"""Apache Kafka's nodes as they are configured."""

from __future__ import annotations

from pathlib import Path

from harness.contracts.environment import Address
from harness.envs.local.plugin import Local
from harness.healing.journal import Journal
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.systems.kafka.plugin import Kafka

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
