"""IncrementalAlterConfigs and DescribeConfigs."""

from __future__ import annotations

import pytest

from node.controller.errors import ApiError
from node.controller.operations import AlterResource, ConfigChange, ConfigOp, NewTopic
from node.metadata.image import BROKER, TOPIC
from tests.support.nodes.controllers import Quorum, alter

SET, DELETE, APPEND, SUBTRACT = ConfigOp
LIST = "follower.replication.throttled.replicas"


@pytest.fixture
def quorum() -> Quorum:
    quorum = Quorum()
    quorum.do(quorum.controller.create_topics([NewTopic("t"), NewTopic("u")]))
    return quorum


def value_of(quorum: Quorum, name: str, resource: tuple[int, str] = (TOPIC, "t")) -> str | None:
    return quorum.controller.describe_configs(resource).configs.get(name)


def test_set_replace_delete(quorum: Quorum) -> None:
    for op, value, expected in ((SET, "1", "1"), (SET, "2", "2"), (DELETE, None, None)):
        (reply,) = quorum.do(quorum.controller.alter_configs([alter("retention.ms", op, value)]))
        assert reply.error == ApiError.NONE
        assert value_of(quorum, "retention.ms") == expected


def test_what_changes_nothing_makes_no_record(quorum: Quorum) -> None:
    quorum.do(quorum.controller.alter_configs([alter("retention.ms", SET, "1")]))
    for request in (
        alter("retention.ms", SET, "1"),
        alter("segment.ms", DELETE),
        alter(LIST, SUBTRACT, "1:1"),
    ):
        result = quorum.controller.alter_configs([request])
        assert result.reply[0].error == ApiError.NONE
        if request.changes[0].op != SUBTRACT:
            assert result.entries == ()


def test_lists_grow_and_shrink_in_order_without_doubles(quorum: Quorum) -> None:
    for op, value, expected in (
        (APPEND, "1:1", "1:1"),
        (APPEND, "2:2, 1:1,3:3", "1:1,2:2,3:3"),
        (SUBTRACT, "2:2,9:9", "1:1,3:3"),
        (APPEND, "2:2", "1:1,3:3,2:2"),
        (SET, "5:5", "5:5"),
        (SUBTRACT, "5:5", ""),
    ):
        quorum.do(quorum.controller.alter_configs([alter(LIST, op, value)]))
        assert value_of(quorum, LIST) == expected


def test_append_starts_from_the_default(quorum: Quorum) -> None:
    quorum.do(quorum.controller.alter_configs([alter("cleanup.policy", APPEND, "compact")]))
    assert value_of(quorum, "cleanup.policy") == "delete,compact"


def test_pipelined_appends_see_each_other(quorum: Quorum) -> None:
    for token in ("1:1", "2:2", "3:3"):
        quorum.append(quorum.controller.alter_configs([alter(LIST, APPEND, token)]))
    assert value_of(quorum, LIST) is None, "nothing is committed"
    quorum.commit()
    assert value_of(quorum, LIST) == "1:1,2:2,3:3"


def test_resources_of_one_request_are_one_batch_and_fail_alone(quorum: Quorum) -> None:
    result = quorum.controller.alter_configs(
        [
            alter("retention.ms", SET, "1", resource="t"),
            alter("retention.ms", SET, "1", resource="none"),
            AlterResource(
                TOPIC, "u", [ConfigChange("retention.ms", SET, "7"), ConfigChange("x", SET, "1")]
            ),
            alter("anything.at.all", SET, "1", resource="3", kind=BROKER),
        ]
    )
    assert [r.error for r in result.reply] == [
        ApiError.NONE,
        ApiError.UNKNOWN_TOPIC_OR_PARTITION,
        ApiError.INVALID_CONFIG,
        ApiError.NONE,
    ]
    assert [entry.count for entry in result.entries] == [2]
    quorum.do(result)
    assert quorum.controller.image.config((TOPIC, "u")) == {}
    assert value_of(quorum, "anything.at.all", (BROKER, "3")) == "1"


def test_a_broker_setting_is_written_even_when_it_is_not_new(quorum: Quorum) -> None:
    request = alter("log.retention.ms", SET, "5", resource="", kind=BROKER)
    for _ in range(2):
        result = quorum.controller.alter_configs([request])
        assert len(result.entries) == 1
        quorum.do(result)


def test_validate_only_changes_nothing(quorum: Quorum) -> None:
    result = quorum.controller.alter_configs([alter("retention.ms", SET, "1")], validate_only=True)
    assert (result.entries, result.reply[0].error) == ((), ApiError.NONE)
    result = quorum.controller.alter_configs([alter("x", SET, "1")], validate_only=True)
    assert result.reply[0].error == ApiError.INVALID_CONFIG
    assert len(quorum.controller._overlay) == 0


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (alter("retention.ms", SET, "many"), ApiError.INVALID_CONFIG, "type LONG"),
        (alter("retention.ms", SET, "-2"), ApiError.INVALID_CONFIG, "between -1 and"),
        (alter("min.insync.replicas", SET, str(2**31)), ApiError.INVALID_CONFIG, "between"),
        (alter("min.cleanable.dirty.ratio", SET, "1.5"), ApiError.INVALID_CONFIG, "0 and 1"),
        (alter("min.cleanable.dirty.ratio", SET, "?"), ApiError.INVALID_CONFIG, "DOUBLE"),
        (alter("preallocate", SET, "maybe"), ApiError.INVALID_CONFIG, "true, false"),
        (alter("cleanup.policy", SET, "compact,shred"), ApiError.INVALID_CONFIG, "one of"),
        (alter(LIST, SET, "1:x"), ApiError.INVALID_CONFIG, "partition:broker"),
        (alter("retention.ms", APPEND, "1"), ApiError.INVALID_CONFIG, "type is not LIST"),
        (alter("no.such.config", SET, "1"), ApiError.INVALID_CONFIG, "Unknown topic config"),
        (alter(LIST, APPEND, "1:1," * 9000), ApiError.INVALID_CONFIG, None),
        (alter("x" * 300, SET, "1", resource="1", kind=BROKER), ApiError.INVALID_CONFIG, "name"),
        (alter("a", SET, "1" * 32768, resource="1", kind=BROKER), ApiError.INVALID_CONFIG, "32767"),
        (
            alter("num.io.threads", SET, "0", resource="1", kind=BROKER),
            ApiError.INVALID_CONFIG,
            "1",
        ),
        (alter("retention.ms", SET, None), ApiError.INVALID_REQUEST, "Null value"),
        (alter(LIST, APPEND, None), ApiError.INVALID_REQUEST, "Null value"),
        (alter("segment.bytes", APPEND, None), ApiError.INVALID_CONFIG, "not LIST"),
        (alter("retention.ms", 9, "1"), ApiError.INVALID_REQUEST, "operation type 9"),
        (alter("retention.ms", SET, "1", resource=""), ApiError.INVALID_REQUEST, "Default topic"),
        (alter("a", SET, "1", resource="x", kind=BROKER), ApiError.INVALID_REQUEST, "integer"),
        (alter("a", SET, "1", kind=8), ApiError.INVALID_REQUEST, "Unsupported resource type 8"),
        (
            AlterResource(TOPIC, "t", [ConfigChange("retention.ms", SET, "1")] * 2),
            ApiError.INVALID_REQUEST,
            "duplicate",
        ),
    ],
)
def test_refusals(
    quorum: Quorum, request_: AlterResource, error: ApiError, message: str | None
) -> None:
    result = quorum.controller.alter_configs([request_])
    (reply,) = result.reply
    if message is None:  # the doubles collapse: a long request for a short list
        assert reply.error == ApiError.NONE
        return
    assert (reply.error, result.entries) == (error, ())
    assert message in (reply.message or "")


def test_a_resource_twice_in_one_request_is_refused(quorum: Quorum) -> None:
    request = alter("retention.ms", SET, "1")
    result = quorum.controller.alter_configs([request, request])
    assert {r.error for r in result.reply} == {ApiError.INVALID_REQUEST}


def test_an_operation_that_no_batch_could_hold_is_refused(quorum: Quorum) -> None:
    value = "x" * 32_000
    requests = [alter("a", SET, value, resource=str(i), kind=BROKER) for i in range(250)]
    result = quorum.controller.alter_configs(requests)
    errors = [r.error for r in result.reply]
    assert errors.count(ApiError.POLICY_VIOLATION) > 10
    assert sum(len(v) for v in result.entries[0].payload) < 8 << 20
    quorum.do(result)
    assert len(quorum.controller.image.configs) == errors.count(ApiError.NONE)


def test_describe_configs_shows_what_was_set_and_is_committed(quorum: Quorum) -> None:
    change = [ConfigChange("segment.ms", SET, "9"), ConfigChange("retention.ms", SET, "1")]
    quorum.append(quorum.controller.alter_configs([AlterResource(TOPIC, "t", change)]))
    describe = quorum.controller.describe_configs
    assert describe((TOPIC, "t")).configs == {}
    quorum.commit()
    assert list(describe((TOPIC, "t")).configs.items()) == [
        ("retention.ms", "1"),
        ("segment.ms", "9"),
    ]
    assert describe((TOPIC, "t"), ["segment.ms", "flush.ms"]).configs == {"segment.ms": "9"}
    assert describe((BROKER, "1")).configs == {}
    assert describe((TOPIC, "none")).error == ApiError.UNKNOWN_TOPIC_OR_PARTITION
    assert describe((BROKER, "x")).error == ApiError.INVALID_REQUEST
    assert describe((99, "x")).error == ApiError.INVALID_REQUEST
