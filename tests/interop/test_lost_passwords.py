"""``docs/findings.md``: passwords are lost when a broker restarts, and for good with a controller.

A real controller and a real broker. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient  # type: ignore[import-untyped]
from kafka.admin import (  # type: ignore[import-untyped]
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError  # type: ignore[import-untyped]

from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import (
    CONTROLLER,
    reigns,
    servers,
    start,
    stop,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
BROKER, BROKER_ID = "n2", 2
USERS = ("u0", "u1", "u2", "u3")  # as the hash map of one delta goes through them
MECHANISM = ScramMechanism.SCRAM_SHA_256
SASL = "SCRAM-SHA-256"
LISTENERS = ("listeners", "advertised.listeners")
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
CREDENTIAL = "UserScramCredentialRecord"
# long enough for the passwords to be set before the first snapshot, which must not have them
EACH_MS = {"metadata.log.max.snapshot.interval.ms": "25000"}


def set_passwords(server: str, gone: str) -> None:
    """Give all users passwords, then take that of one away."""
    admin = KafkaAdminClient(bootstrap_servers=server)
    try:
        new = [UserScramCredentialUpsertion(user, MECHANISM, password="p") for user in USERS]
        admin.alter_user_scram_credentials(new)
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(gone, MECHANISM)])
    finally:
        admin.close()


def take_password(server: str, user: str) -> str | None:
    """Take a user's password away; what the controller had against it."""
    admin = KafkaAdminClient(bootstrap_servers=server)
    try:
        told = admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, MECHANISM)])
        return str(told[user])
    finally:
        admin.close()


def users(server: str) -> set[str]:
    """The users who have a password by the word of a broker."""
    admin = KafkaAdminClient(bootstrap_servers=server)
    try:
        return set(admin.describe_user_scram_credentials())
    finally:
        admin.close()


def may_log_in(server: str, user: str) -> bool:
    """Tell whether a broker lets a user in with the right password."""
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=server,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=SASL,
            sasl_plain_username=user,
            sasl_plain_password="p",
        )
    except KafkaError:
        return False
    admin.close()
    return True


def with_sasl(scene: LiveScene) -> str:
    """Have the broker listen for users with passwords, too, from its next start on; where."""
    node = scene.system._node[BROKER]
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {
        **node.settings,
        **{key: f"{node.settings[key]},SASL://{place}" for key in LISTENERS},
        "listener.security.protocol.map": PROTOCOLS,
        "sasl.enabled.mechanisms": SASL,
        f"listener.name.sasl.{SASL.lower()}.sasl.jaas.config": MODULE,
    }
    scene.system._node[BROKER] = replace(node, settings=settings)
    return place


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize(
    ("gone", "kept"), [("u0", set()), ("u3", {"u0", "u1", "u2"})], ids=("lost", "control")
)
def test_a_restarted_broker_knows_no_user_any_more(
    kafka: KafkaDist, release: str, gone: str, kept: set[str], tmp_path: Path
) -> None:
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        server = servers(scene, BROKER)[BROKER]
        await asyncio.to_thread(set_passwords, server, gone)
        assert await asyncio.to_thread(users, server) == set(USERS) - {gone}
        await stop(scene, BROKER, BROKER_ID)
        place = with_sasl(scene)
        await start(scene, BROKER, BROKER_ID)
        assert await asyncio.to_thread(users, server) == kept
        assert await asyncio.to_thread(may_log_in, place, USERS[1]) is (USERS[1] in kept)

    play(tmp_path, main, with_brokers(release, 1), frozenset())


def snapshots(scene: LiveScene) -> list[set[str]]:
    """The users who have a password by the controller's snapshots, the oldest first."""
    return [
        {r["fields"]["name"] for r in each.records if r["type"] == CREDENTIAL}
        for each in scene.system.stored_snapshots(CONTROLLER)
        if each.end > 0  # that of the formatting
    ]


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_the_snapshot_of_a_restarted_controller_has_no_user_any_more(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        server = servers(scene, BROKER)[BROKER]
        await asyncio.to_thread(set_passwords, server, "u0")
        assert not snapshots(scene)
        await scene.system._stop(CONTROLLER)
        await scene.system._launch(CONTROLLER)
        await until(lambda: bool(snapshots(scene)))
        assert snapshots(scene)[0] == set()
        await scene.system._stop(CONTROLLER)
        await scene.system._launch(CONTROLLER)
        await until(lambda: reigns(scene) > 2)
        told = await asyncio.to_thread(take_password, server, "u1")
        assert "delete a user credential that does not exist" in str(told)

    spec = with_brokers(release, 1)
    play(tmp_path, main, replace(spec, settings={**spec.settings, **EACH_MS}), frozenset())
