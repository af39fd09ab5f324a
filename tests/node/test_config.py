"""A node's settings: each is read, and each bad one is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node.config import _KEYS, ConfigError, ListenerConfig, NodeConfig, Timers, load, parse
from node.core.types import Endpoint, Listener

BASE = {
    "node.id": "1",
    "process.roles": "controller",
    "controller.quorum.voters": "1@127.0.0.1:9091,2@127.0.0.1:9092,3@127.0.0.1:9093",
    "listeners": "CONTROLLER://127.0.0.1:9091",
    "log.dirs": "/var/lib/n1",
}


TWO = (Endpoint("h", 1), Endpoint("::1", 2))


def config(**settings: str) -> NodeConfig:
    return parse(BASE | {key.replace("_", "."): value for key, value in settings.items()})


def refusal(**settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**settings)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_least_that_a_node_needs() -> None:
    least = config()
    assert least.node_id == 1
    assert least.roles == {"controller"}
    assert least.is_controller
    assert least.voters.ids == (1, 2, 3)
    assert least.voters.endpoint(3) == Endpoint("127.0.0.1", 9093)
    assert least.listener == least.advertised == Endpoint("127.0.0.1", 9091)
    assert least.log_dir == Path("/var/lib/n1")
    assert least.timers == Timers()
    assert (least.read_barrier, least.fsync, least.segment_bytes) == (False, True, 1 << 30)
    assert (least.source_host, least.trace_file, least.seed, least.mutant) == (None,) * 4
    assert least.brokers is None


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("controller.quorum.election.timeout.ms", "7", "timers.election_timeout_ms", 7),
        ("controller.quorum.fetch.timeout.ms", "7", "timers.fetch_timeout_ms", 7),
        ("controller.quorum.request.timeout.ms", "7", "timers.request_timeout_ms", 7),
        ("controller.quorum.retry.backoff.ms", "7", "timers.retry_backoff_ms", 7),
        ("controller.quorum.election.backoff.max.ms", "0", "timers.election_backoff_max_ms", 0),
        ("controller.quorum.append.linger.ms", "0", "timers.append_linger_ms", 0),
        ("metadata.max.idle.interval.ms", "0", "timers.idle_interval_ms", 0),
        ("node.id", "2", "node_id", 2),
        ("process.roles", " controller ", "roles", {"controller"}),
        ("broker.session.timeout.ms", "7", "timers.broker_session_timeout_ms", 7),
        ("broker.heartbeat.interval.ms", "7", "timers.broker_heartbeat_interval_ms", 7),
        ("initial.broker.registration.timeout.ms", "7", "timers.broker_registration_timeout_ms", 7),
        ("krucible.log.clean.interval.ms", "7", "timers.log_clean_interval_ms", 7),
        ("metadata.log.max.record.bytes.between.snapshots", "7", "retention.snapshot_bytes", 7),
        ("metadata.log.max.snapshot.interval.ms", "0", "retention.snapshot_interval_ms", 0),
        ("metadata.max.retention.bytes", "-1", "retention.retention_bytes", -1),
        ("metadata.max.retention.ms", "7", "retention.retention_ms", 7),
        ("controller.quorum.bootstrap.servers", "h:1,[::1]:2", "bootstrap", TWO),
        ("controller.listener.names", "A, B", "controller_listener_names", ("A", "B")),
        ("listener.security.protocol.map", "CONTROLLER:SSL", "controller_tls", True),
        ("inter.broker.listener.name", "X", "inter_broker_listener", "X"),
        ("broker.rack", "r", "rack", "r"),
        ("num.partitions", "7", "num_partitions", 7),
        ("default.replication.factor", "7", "replication_factor", 7),
        ("controller.quorum.voters", " 1@h:1 , 9@[::1]:2", "voters.ids", (1, 9)),
        ("listeners", "h:5", "listener", Endpoint("h", 5)),
        ("listeners", "CONTROLLER://[::1]:65535", "listener", Endpoint("::1", 65535)),
        ("advertised.listeners", "X://relay:6", "advertised", Endpoint("relay", 6)),
        ("log.dirs", "data", "log_dir", Path("data")),
        ("metadata.log.segment.bytes", "1", "segment_bytes", 1),
        ("controller.quorum.fetch.max.bytes", "1", "fetch_max_bytes", 1),
        ("controller.quorum.fetch.snapshot.max.bytes", "1", "fetch_snapshot_max_bytes", 1),
        ("leader.imbalance.check.interval.seconds", "7", "timers.leader_balance_interval_ms", 7000),
        ("unclean.leader.election.interval.ms", "7", "timers.unclean_election_interval_ms", 7),
        ("read.barrier", "TRUE", "read_barrier", True),
        ("krucible.fsync", "false", "fsync", False),
        ("krucible.source.host", "127.1.2.3", "source_host", "127.1.2.3"),
        ("krucible.trace.file", "/tmp/x", "trace_file", Path("/tmp/x")),
        ("krucible.turn.limit.ms", "50", "turn_limit_ms", 50),
        ("krucible.partitions.per.slice", "1", "partitions_per_slice", 1),
        ("krucible.seed", "-18446744073709551616", "seed", -(2**64)),
        ("krucible.mutant", "m", "mutant", "m"),
        ("krucible.brokers", "5, 6,", "brokers", (5, 6)),
    ],
)
def test_a_setting_is_read(key: str, text: str, field: str, value: Any) -> None:
    seen: Any = parse(BASE | {key: text})
    for name in field.split("."):
        seen = getattr(seen, name)
    assert seen == value


def test_the_table_above_has_every_setting() -> None:
    mark = test_a_setting_is_read.pytestmark[0]
    assert {row[0] for row in mark.args[1]} == _KEYS


NUMBER = "want a whole number"
MILLIS = "want milliseconds, more than 0"
ID = "want 0 or more, below 2^31"
ENDPOINT = "want host:port"
PORT = "want a port from 1 to 65535"


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("node.id", "", NUMBER),
        ("node.id", "one", NUMBER),
        ("node.id", "1_0", NUMBER),
        ("node.id", "1.0", NUMBER),
        ("node.id", "\u0661", NUMBER),
        ("node.id", "9" * 5000, NUMBER),
        ("node.id", "-1", ID),
        ("node.id", str(1 << 31), ID),
        ("process.roles", "", "want controller, broker or both"),
        ("process.roles", "leader", "want controller, broker or both"),
        ("controller.quorum.voters", "", "want id@host:port,..."),
        ("controller.quorum.voters", "1:9091", "want id@host:port,..."),
        ("controller.quorum.voters", "x@h:1", NUMBER),
        ("controller.quorum.voters", "1@h", ENDPOINT),
        ("controller.quorum.voters", "1@h:1,", "want id@host:port,..."),
        ("controller.quorum.voters", "1@h:1,1@h:2", "a voter id stands twice"),
        ("listeners", "", ENDPOINT),
        ("listeners", "9091", ENDPOINT),
        ("listeners", "CONTROLLER://:9091", ENDPOINT),
        ("listeners", "h:", PORT),
        ("listeners", "h:0", PORT),
        ("listeners", "h:65536", PORT),
        ("listeners", "h:+1", PORT),
        ("listeners", "A://h:1,A://h:2", "a listener name stands twice"),
        ("controller.quorum.bootstrap.servers", "", ENDPOINT),
        ("controller.listener.names", " , ", "want a name"),
        ("listener.security.protocol.map", "A:SASL_SSL", "want LISTENER:PLAINTEXT or LISTENER:SSL"),
        ("metadata.max.retention.bytes", "-2", "want more than 0"),
        ("advertised.listeners", "relay", ENDPOINT),
        ("log.dirs", "", "want a path"),
        ("log.dirs", "a\0b", "want a path"),
        ("metadata.log.segment.bytes", "0", "want more than 0"),
        ("metadata.log.segment.bytes", "1GB", NUMBER),
        ("read.barrier", "yes", "want true or false"),
        ("krucible.fsync", "1", "want true or false"),
        ("krucible.source.host", "", "want some text"),
        ("krucible.trace.file", "", "want a path"),
        ("krucible.seed", "0x10", NUMBER),
        ("krucible.mutant", "", "want some text"),
        ("krucible.brokers", "1,b", NUMBER),
        ("controller.quorum.election.timeout.ms", "0", MILLIS),
        ("controller.quorum.fetch.timeout.ms", "-5", MILLIS),
        ("controller.quorum.request.timeout.ms", "1s", NUMBER),
        ("controller.quorum.retry.backoff.ms", "0", MILLIS),
        ("controller.quorum.election.backoff.max.ms", "-1", MILLIS),
        ("controller.quorum.append.linger.ms", "-1", MILLIS),
        ("metadata.max.idle.interval.ms", str(1 << 31), MILLIS),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_what_is_wanted(
    key: str, text: str, wanted: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(BASE | {key: text})
    assert str(caught.value).startswith(f"{key}={text!r}: {wanted}")


@pytest.mark.parametrize("key", sorted(BASE))
def test_a_missing_setting_is_named(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({k: v for k, v in BASE.items() if k != key})
    assert str(caught.value).startswith(f"missing setting {key!r}")


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    assert refusal(node_idd="1") == "unknown setting 'node.idd'; did you mean 'node.id'?"
    assert refusal(zzzzzz="1") == "unknown setting 'zzzzzz'"


def test_voters_are_the_controllers_and_nobody_else() -> None:
    assert refusal(node_id="4") == (
        "node.id='4' is not one of the voters [1, 2, 3]: process.roles='controller' wants a voter"
    )
    assert refusal(process_roles="broker") == (
        "node.id='1' is one of the voters [1, 2, 3]: process.roles='broker' wants no voter"
    )
    assert not config(process_roles="broker", node_id="4").is_controller


def test_a_file_may_have_comments_and_blanks(tmp_path: Path) -> None:
    path = tmp_path / "n.properties"
    lines = ["# comment", "! also", "", *(f"  {k} = {v}  " for k, v in BASE.items())]
    path.write_text("\n".join(lines))
    assert load(path) == config()


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (None, "cannot read the configuration {path}: [Errno 2] No such file or directory"),
        (b"\xff\xfe", "cannot read the configuration {path}: 'utf-8' codec can't decode"),
        (b"node.id=1\nnonsense\n", "{path}:2: 'nonsense' is not key=value"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, wanted: str
) -> None:
    path = tmp_path / "n.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(wanted.format(path=path))


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path)


def test_a_dynamic_quorum_needs_only_somebody_to_ask() -> None:
    settings = {k: v for k, v in BASE.items() if k != "controller.quorum.voters"}
    dynamic = parse(settings | {"controller.quorum.bootstrap.servers": "h:1"})
    assert len(dynamic.voters) == 0
    assert dynamic.voter_listeners == (Listener("CONTROLLER", Endpoint("127.0.0.1", 9091)),)


def test_a_node_with_both_roles_has_listeners_of_both() -> None:
    both = config(
        process_roles="broker,controller",
        listeners="PLAINTEXT://h:1,CONTROLLER://h:2",
        advertised_listeners="PLAINTEXT://relay:3",
    )
    assert both.controller_listeners == (
        ListenerConfig("CONTROLLER", Endpoint("h", 2), Endpoint("h", 2)),
    )
    assert both.broker_listeners == (
        ListenerConfig("PLAINTEXT", Endpoint("h", 1), Endpoint("relay", 3)),
    )
    assert both.inter_broker_listener == "PLAINTEXT"
    assert both.advertised == Endpoint("h", 2)
    assert "wants at least one" in refusal(process_roles="broker,controller")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("sasl.enabled.mechanisms", "SASL is not supported"),
        ("listener.name.x.sasl.jaas.config", "SASL is not supported"),
        ("authorizer.class.name", "ACLs are not enforced"),
        ("super.users", "ACLs are not enforced"),
    ],
)
def test_what_this_node_does_not_do_is_refused_with_the_reason(key: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse(BASE | {key: "x"})


def test_a_listener_has_its_own_tls_settings_before_the_common_ones() -> None:
    settings = {
        "ssl.client.auth": "none",
        "ssl.keystore.type": "PEM",
        "listener.name.controller.ssl.client.auth": "required",
    }
    assert parse(BASE | settings).ssl_of("CONTROLLER") == {
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
    }


def test_an_advertised_listener_must_be_bound() -> None:
    assert "not in listeners" in refusal(
        process_roles="broker",
        node_id="4",
        listeners="A://h:1,B://h:2",
        advertised_listeners="C://h:3",
    )
    assert "want one of the broker's listeners" in refusal(
        process_roles="broker", node_id="4", inter_broker_listener_name="X"
    )
