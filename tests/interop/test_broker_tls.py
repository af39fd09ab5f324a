"""A broker of Apache Kafka and a controller of ours speak TLS, and show each other certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from tests.support.kafka.cluster import HOST, running
from tests.support.kafka.data import LibrdClient, address
from tests.support.kafka.data_cluster import SIGTERM_EXIT, Cluster
from tests.support.kafka.quorum_files import fold
from tests.support.kafka.quorums import dynamic_quorum, kafka_broker
from tests.support.wire.certificates import Identity, authority

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def settings(folder: Path, name: str, ca: Identity, trusted: Identity) -> dict[str, str]:
    """Of a node with a certificate of ``ca``, which wants to see one of ``trusted``."""
    own = ca.issue(name, HOST)
    keys, trust = folder / f"{name}.pem", folder / f"{name}-trusts.pem"
    keys.write_text(own.key_pem() + own.certificate_pem)
    trust.write_text(trusted.certificate_pem)
    return {
        "listener_security_protocol_map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(keys),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(trust),
        "ssl_client_auth": "required",
    }


def test_a_broker_registers_and_serves_over_tls_and_a_stranger_does_not(
    kafka: KafkaDist, folder: Path
) -> None:
    ca, other = authority("interop"), authority("other")
    of_controller = settings(folder, "controller", ca, trusted=ca)
    with dynamic_quorum(kafka, folder, {1: "ours"}, None, **of_controller) as quorum:
        broker = kafka_broker(kafka, folder, 11, quorum, **settings(folder, "broker", ca, ca))
        of_stranger = settings(folder, "stranger", other, trusted=ca)
        stranger = kafka_broker(kafka, folder, 12, quorum, **of_stranger)
        cluster = Cluster(quorum, {11: broker})
        with running([broker, stranger]):
            for each in (broker, stranger):
                each.format()
            stranger.start()
            quorum.start_all()
            cluster.start(11)
            client = LibrdClient(address(broker))
            client.create("over-tls")
            client.produce("over-tls", [b"value"])
            assert client.consume("over-tls", "readers", 1) == [b"value"]
            quorum.wait_for(lambda: "fatal alert: unknown_ca" in stranger.said, "it is refused")
            assert stranger.alive
            assert "in the TLS handshake: the peer's certificate is refused" in quorum[1].said
            stranger.kill()
            assert broker.stop() == SIGTERM_EXIT
            assert quorum[1].stop() == 0
    image = fold(quorum[1], quorum[1].batches()[-1].last_offset + 1)
    assert image.brokers.keys() == {11}
    assert "over-tls" in image.topics
    assert cluster.faults() == {}
