"""A whole cluster of real processes over TLS; who does not fit is turned away with a reason."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from node.__main__ import EXIT_USAGE, main
from node.wire.connection import Connection
from node.wire.errors import WireError
from node.wire.tls import TlsConfig
from tests.support.live.cluster import eventually
from tests.support.nodes.cluster import (
    HOST,
    WAIT_S,
    ClusterNode,
    NodeCluster,
    in_loop,
    node_cluster,
)
from tests.support.places import ROOT
from tests.support.wire.certificates import Identity, authority

BROKER = "CLIENT"


def secure(node: ClusterNode, ca: Identity, trusted: Identity) -> None:
    """Give a node a certificate of ``ca``, and whom to trust."""
    own = ca.issue(f"node-{node.id}", HOST)
    keys, trust = node.folder / "own.pem", node.folder / "trusted.pem"
    keys.write_text(own.key_pem() + own.certificate_pem)
    trust.write_text(trusted.certificate_pem)
    node.settings |= {
        "listener.security.protocol.map": f"CONTROLLER:SSL,{BROKER}:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "ssl.client.auth": "required",
    }
    client = ca.issue("client", HOST)
    node.tls = TlsConfig.of(client.settings() | ca.trusted()).client_context()
    node.write_config()


def broker_of(cluster: NodeCluster, node_id: int, ca: Identity, trusted: Identity) -> ClusterNode:
    node = cluster.add_broker(node_id, listener=BROKER)
    secure(node, ca, trusted)
    return node


@pytest.mark.slow
@in_loop
async def test_a_quorum_and_a_broker_speak_tls_and_refuse_who_does_not(tmp_path: Path) -> None:
    ca, other = authority("ours"), authority("theirs")
    async with node_cluster(tmp_path, 3) as cluster:
        for node in cluster.controllers.values():
            secure(node, ca, ca)
        cluster.format_initial()
        broker = broker_of(cluster, 10, ca, ca)
        await cluster.start()
        await cluster.create("through-the-controller")
        await cluster.create("through-the-broker", through=broker)
        leader = await cluster.leader()
        await cluster.applied(broker, leader.kinds("apply")[-1]["off"])
        assert set(await broker.topics()) == {"through-the-controller", "through-the-broker"}

        # who trusts another authority, or has a certificate of one, does not join; the one that
        # refuses says why
        stray = broker_of(cluster, 11, ca, trusted=other)
        foreign = broker_of(cluster, 12, other, trusted=ca)
        stray.spawn()
        foreign.spawn()
        await eventually(lambda: f"no answer from a peer: {HOST}" in stray.log, "why", WAIT_S)
        assert "in the TLS handshake: the peer's certificate is refused" in stray.log
        await eventually(
            lambda: any(
                "in the TLS handshake: the peer's certificate is refused" in n.log
                for n in cluster.controllers.values()
            ),
            "the controllers say why",
            WAIT_S,
        )
        assert not [*stray.kinds("apply", "image"), *foreign.kinds("apply", "image")]

        # plaintext gets no answer, on either kind of listener
        for node in (leader, broker):
            connection = await Connection.open(node.endpoint)
            with pytest.raises(WireError):
                await connection.negotiate(5.0)
            await connection.wait_closed()
            assert "the peer speaks plaintext and this listener TLS" in node.log
        for node in (stray, foreign, broker):
            assert await node.signal(signal.SIGTERM) == 0


BASE = {
    "node.id": "1",
    "process.roles": "controller",
    "controller.quorum.voters": f"1@{HOST}:1",
    "listeners": f"CONTROLLER://{HOST}:1",
    "log.dirs": "/nowhere",
}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (
            "listener.security.protocol.map",
            "CONTROLLER:SASL_SSL",
            "want LISTENER:PLAINTEXT or LISTENER:SSL",
        ),
        (
            "sasl.enabled.mechanisms",
            "PLAIN",
            "SASL is not supported: use PLAINTEXT or SSL listeners",
        ),
        (
            "listener.name.controller.sasl.enabled.mechanisms",
            "PLAIN",
            "SASL is not supported: use PLAINTEXT or SSL listeners",
        ),
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "ACLs are not enforced: leave it out",
        ),
        ("super.users", "User:admin", "ACLs are not enforced: leave it out"),
    ],
)
def test_what_is_not_supported_is_refused_and_so_it_is_documented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: str, reason: str
) -> None:
    path = tmp_path / "node.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in (BASE | {key: value}).items()))
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(path)])
    assert ended.value.code == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.startswith("krucible-node: ")
    assert said.count("\n") == 1
    assert key in said
    assert reason in said
    page = (ROOT / "docs" / "node.md").read_text(encoding="utf-8")
    assert f"`{key.removeprefix('listener.name.controller.')}`" in page
