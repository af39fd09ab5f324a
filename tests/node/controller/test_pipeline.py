"""Leadership, pipelining and commits: speculation is exact, and gone when leadership is."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.controller.controller import QuorumController
from node.controller.errors import ApiError, ControllerError, NotControllerError
from node.controller.operations import AlterResource, ConfigOp, NewTopic, TopicRef
from node.metadata.fold import apply_record
from node.metadata.image import TOPIC, MetadataImage
from node.metadata.records import NO_OP, decode_record
from node.metadata.schemas import NoOpRecord
from tests.support.nodes.controllers import Quorum, alter

LIST = "follower.replication.throttled.replicas"


def test_an_inactive_controller_refuses_to_write() -> None:
    controller = QuorumController(rng=Random(1))
    assert not controller.active
    for write in (
        lambda: controller.alter_configs([]),
        lambda: controller.create_topics([]),
        lambda: controller.delete_topics([]),
        controller.no_op,
    ):
        with pytest.raises(NotControllerError):
            write()


def test_claiming_twice_is_an_error_of_the_driver() -> None:
    controller = QuorumController(rng=Random(1))
    controller.claim(3, 0)
    assert controller.epoch == 3
    with pytest.raises(ControllerError, match="epoch 4 while active in epoch 3"):
        controller.claim(4, 0)
    controller.renounce()
    controller.claim(4, 0)


def test_a_no_op_is_one_record() -> None:
    quorum = Quorum()
    result = quorum.controller.no_op()
    assert [entry.payload for entry in result.entries] == [(NO_OP,)]
    quorum.do(result)
    assert quorum.log == [NoOpRecord()]
    assert quorum.controller.pending == 0


def test_every_answer_waits_for_the_newest_write_it_may_have_seen() -> None:
    quorum = Quorum()
    controller = quorum.controller
    quorum.do(controller.create_topics([NewTopic("t")]))
    assert controller.alter_configs([alter("retention.ms", ConfigOp.DELETE)]).wait_for is None
    write = controller.alter_configs([alter("retention.ms", ConfigOp.SET, "5")])
    repeat = controller.alter_configs([alter("retention.ms", ConfigOp.SET, "5")])
    assert write.wait_for is not None
    assert repeat.entries == ()
    assert repeat.wait_for is write.wait_for
    offsets = [write.wait_for.last_offset]
    quorum.append(write)
    assert [*offsets, write.wait_for.last_offset] == [None, 2]
    refused = controller.create_topics([NewTopic("t")])
    assert refused.wait_for is write.wait_for
    quorum.commit()
    assert controller.alter_configs([alter("retention.ms", ConfigOp.SET, "5")]).wait_for is None


def test_losing_leadership_forgets_all_that_is_pending() -> None:
    quorum = Quorum()
    controller = quorum.controller
    quorum.do(controller.create_topics([NewTopic("keep", configs={"retention.ms": "1"})]))
    digest = controller.image.digest
    quorum.append(controller.alter_configs([alter(LIST, 2, "1:1", resource="keep")]))
    quorum.append(controller.create_topics([NewTopic("gone")]))
    controller.delete_topics([TopicRef("keep")])
    assert controller.speculative > 0
    controller.renounce()
    assert (controller.pending, controller.speculative) == (0, 0)
    assert controller.image.digest == digest
    controller.claim(2, 0)
    result = controller.alter_configs([alter(LIST, 2, "2:2", resource="keep")])
    assert decode_record(result.entries[0].payload[0]).value == "2:2"  # type: ignore[attr-defined]
    assert controller.create_topics([NewTopic("gone")]).reply[0].error == ApiError.NONE


def test_a_write_of_the_last_reign_may_still_be_committed_by_the_next() -> None:
    quorum = Quorum()
    quorum.append(quorum.controller.create_topics([NewTopic("t")]))
    quorum.controller.renounce()
    quorum.commit()
    assert "t" in quorum.controller.image.topics
    quorum.controller.claim(5, 0)
    again = quorum.controller.create_topics([NewTopic("t")])
    assert again.reply[0].error == ApiError.TOPIC_ALREADY_EXISTS


def test_what_is_appended_must_be_what_was_proposed() -> None:
    quorum = Quorum()
    with pytest.raises(ControllerError, match="no pending write"):
        quorum.controller.appended(0, 0)
    quorum.controller.no_op()
    with pytest.raises(ControllerError, match=r"1 records were appended as 3\.\.4"):
        quorum.controller.appended(3, 4)


def test_a_shared_image_is_applied_to_once() -> None:
    image = MetadataImage()
    controller = QuorumController(rng=Random(1), image=image, broker_ids=())
    controller.claim(1, 0)
    result = controller.create_topics([NewTopic("t")])
    controller.appended(5, 6)
    for offset, value in enumerate(result.entries[0].payload, start=5):
        record = decode_record(value)
        apply_record(image, record, offset)
        controller.committed(record, offset)
    assert (controller.pending, len(controller._overlay)) == (0, 0)
    assert image.end_offset == 7


NAMES = st.sampled_from("ab")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.booleans()),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("append"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("subtract"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("set"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("unset"), NAMES, st.just(0)),
        st.tuples(st.just("commit"), st.just(""), st.integers(0, 4)),
        st.tuples(st.just("renounce"), st.just(""), st.integers(0, 4)),
    ),
    max_size=40,
)


class Model:
    """What the answers of a controller without pipelining would be."""

    def __init__(self) -> None:
        self.topics: dict[str, list[int] | None] = {}

    def step(self, what: str, name: str, number: int) -> ApiError:
        if what == "create":
            if name in self.topics:
                return ApiError.TOPIC_ALREADY_EXISTS
            self.topics[name] = [9] if number else None
            return ApiError.NONE
        if name not in self.topics:
            return ApiError.UNKNOWN_TOPIC_OR_PARTITION
        tokens = self.topics[name]
        if what == "delete":
            del self.topics[name]
        elif what == "append":
            self.topics[name] = list(dict.fromkeys([*(tokens or []), number]))
        elif what == "subtract":
            self.topics[name] = [t for t in tokens or [] if t != number]
        else:
            self.topics[name] = [number] if what == "set" else None
        return ApiError.NONE


def request(quorum: Quorum, what: str, name: str, number: int) -> ApiError:
    controller = quorum.controller
    if what == "create":
        configs = {LIST: "9:9"} if number else {}
        return quorum.append(controller.create_topics([NewTopic(name, configs=configs)]))[0].error
    if what == "delete":
        return quorum.append(controller.delete_topics([TopicRef(name)]))[0].error
    op = {"set": 0, "unset": 1, "append": 2, "subtract": 3}[what]
    value = None if what == "unset" else f"{number}:{number}"
    change: AlterResource = alter(LIST, op, value, resource=name)
    return quorum.append(controller.alter_configs([change]))[0].error


def shown(image: MetadataImage) -> dict[str, list[int] | None]:
    topics: dict[str, list[int] | None] = {}
    for name in image.topics:
        value = image.config((TOPIC, name)).get(LIST)
        topics[name] = None if value is None else [int(v[0]) for v in value.split(",") if v]
    return topics


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_pipelined_answers_are_those_of_one_write_at_a_time(
    steps: list[tuple[str, str, int]],
) -> None:
    """Whatever is committed or lost meanwhile: answers, log and image agree with the model."""
    quorum, model = Quorum(), Model()
    batch_ends = [0]
    models_at: dict[int, dict[str, list[int] | None]] = {0: {}}
    for what, name, number in steps:
        if what == "commit":
            later = [end for end in batch_ends if end > quorum.committed]
            quorum.commit(later[min(number, len(later) - 1)] if later else None)
        elif what == "renounce":  # all that is not committed is lost
            quorum.controller.renounce()
            quorum.controller.claim(2, 0)
            del quorum.log[quorum.committed :]
            batch_ends = [end for end in batch_ends if end <= quorum.committed]
            model.topics = dict(models_at[quorum.committed])
        else:
            expected = model.step(what, name, number)
            assert request(quorum, what, name, number) == expected
            batch_ends.append(len(quorum.log))
            models_at[len(quorum.log)] = dict(model.topics)
        assert shown(quorum.controller.image) == models_at[quorum.committed]
    quorum.commit()
    assert shown(quorum.controller.image) == model.topics
    assert len(quorum.controller._overlay) == 0
    assert quorum.controller.pending == 0
    fold = MetadataImage()
    for offset, record in enumerate(quorum.log):
        apply_record(fold, record, offset)
    assert fold.digest == quorum.controller.image.digest
