"""KIP-853 sentence by sentence: static voters become voters in the log (KAFKA-16538)."""

from __future__ import annotations

from typing import Any

import pytest

from node.core import effects as fx
from node.core.messages import (
    ControlRecords,
    Error,
    FetchRequest,
    KRaftVersion,
    UpdateVoterRequest,
    UpgradeVersionRequest,
    VoterChangeResponse,
    Voters,
)
from node.core.types import (
    KRAFT_VERSIONS,
    STATIC_ONLY,
    ElectionState,
    Listener,
    ReplicaKey,
    VersionRange,
)
from tests.support.raft.one import One, endpoint, key, keyed_voters, listeners


def leading(voters: int = 3, *, committed: bool = True) -> One:
    """The leader of a static quorum; nobody has told it anything."""
    one = One(1, voters, key=key(1), listeners=listeners(1))
    one.lead()
    for node_id in range(2, voters + 1):
        if committed:
            one.fetch(node_id, one.replica.log_end_offset)
    return one


def tell(one: One, node_id: int, **more: Any) -> Any:
    """A voter tells its leader what a static voter set does not say."""
    fields: dict[str, Any] = {
        "voter": key(node_id),
        "epoch": one.replica.epoch,
        "listeners": listeners(node_id),
        "kraft_versions": KRAFT_VERSIONS,
    } | more
    return one.ask(UpdateVoterRequest(**fields))


def ready() -> One:
    """A leader that knows all about its voters."""
    one = leading()
    for node_id in (2, 3):
        assert tell(one, node_id).error is Error.NONE
    return one


def appended(one: One) -> list[ControlRecords]:
    return [
        e.content
        for e in one.effects
        if isinstance(e, fx.AppendAsLeader) and isinstance(e.content, ControlRecords)
    ]


def outcome(one: One) -> list[VoterChangeResponse]:
    return [
        e.response
        for e in one.effects
        if isinstance(e, fx.Reply) and isinstance(e.response, VoterChangeResponse)
    ]


# ---------------------------------------------------------------- the leader is told


def test_what_static_voters_tell_is_not_written() -> None:
    """Kafka 4.1, UpdateVoterHandler: kept by the leader, for there is no record for it."""
    one = leading()
    response = tell(one, 2)
    assert (response.error, response.leader_id) == (Error.NONE, 1)
    assert appended(one) == []
    assert one.replica.voters.voters[2].key == ReplicaKey(2)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"epoch": 0}, Error.FENCED_LEADER_EPOCH),
        ({"epoch": 9}, Error.UNKNOWN_LEADER_EPOCH),
        ({"voter": ReplicaKey(2)}, Error.INVALID_REQUEST),
        ({"kraft_versions": VersionRange(1, 1)}, Error.INVALID_REQUEST),
        ({"listeners": (Listener("EXTRA", endpoint(2)),)}, Error.INVALID_REQUEST),
        ({"voter": key(9)}, Error.VOTER_NOT_FOUND),
        ({"cluster_id": "other"}, Error.INCONSISTENT_CLUSTER_ID),
    ],
)
def test_what_is_refused_to_be_told(more: dict[str, Any], error: Error) -> None:
    """Kafka 4.1, UpdateVoterHandler."""
    assert tell(leading(), 2, **more).error is error


def test_nothing_is_heard_before_something_of_the_epoch_is_committed() -> None:
    """Kafka 4.1, UpdateVoterHandler: REQUEST_TIMED_OUT, and the voter tries again."""
    assert tell(leading(committed=False), 2).error is Error.REQUEST_TIMED_OUT


# ---------------------------------------------------------------- the level is raised


def test_the_level_and_the_voters_are_one_batch_and_answered_when_committed() -> None:
    """KIP-853: KRaftVersionRecord, then VotersRecord with all directory ids and endpoints."""
    one = ready()
    assert one.ask(UpgradeVersionRequest(1)) is None
    (batch,) = appended(one)
    assert batch.records == (KRaftVersion(1), Voters(keyed_voters(1, 2, 3)))
    assert one.replica.kraft_version == 1
    assert one.replica.voters == keyed_voters(1, 2, 3)
    one.keyed = True
    end = one.replica.log_end_offset
    assert outcome(one) == []
    one.fetch(2, end)
    assert [r.error for r in outcome(one)] == [Error.NONE]
    assert one.replica.high_watermark == end


def test_another_disk_than_was_told_does_not_commit_it() -> None:
    """KIP-853: from now on a voter is its id and its directory id."""
    one = ready()
    one.ask(UpgradeVersionRequest(1))
    high_watermark = one.replica.high_watermark
    end = one.replica.log_end_offset
    stranger = FetchRequest(
        key(2, disk=9), one.replica.epoch, end, one.replica.epoch, max_wait_ms=0, max_bytes=1
    )
    one.ask(stranger)
    assert one.replica.high_watermark == high_watermark


def test_the_level_is_only_checked_when_that_is_asked_for() -> None:
    """KIP-584, validateOnly."""
    one = ready()
    assert one.ask(UpgradeVersionRequest(1, validate_only=True)).error is Error.NONE
    assert one.ask(UpgradeVersionRequest(2, validate_only=True)).error is (
        Error.INVALID_UPDATE_VERSION
    )
    assert one.replica.kraft_version == 0


def test_a_voter_that_has_told_nothing_stands_against_it() -> None:
    """KIP-853: all voters must support the new level, and their directory ids be known."""
    one = leading()
    tell(one, 3)
    response = one.ask(UpgradeVersionRequest(1))
    assert response.error is Error.INVALID_UPDATE_VERSION
    assert "so yet: 2;" in response.message


def test_a_voter_that_does_not_support_it_stands_against_it() -> None:
    """KIP-853: all voters must support the new level."""
    one = ready()
    tell(one, 3, kraft_versions=STATIC_ONLY)
    response = one.ask(UpgradeVersionRequest(1))
    assert response.error is Error.INVALID_UPDATE_VERSION
    assert "so yet: 3;" in response.message


@pytest.mark.parametrize("level", [-1, 2])
def test_unknown_levels_are_refused(level: int) -> None:
    """KIP-584."""
    assert ready().ask(UpgradeVersionRequest(level)).error is Error.INVALID_UPDATE_VERSION


def test_the_same_level_is_nothing_to_do_and_a_lower_one_is_refused() -> None:
    """KIP-853: kraft.version cannot be downgraded."""
    assert leading().ask(UpgradeVersionRequest(0)).error is Error.NONE
    one = ready()
    one.ask(UpgradeVersionRequest(1))
    assert one.ask(UpgradeVersionRequest(1)).error is Error.REQUEST_TIMED_OUT, "not committed yet"
    one.keyed = True
    one.fetch(2, one.replica.log_end_offset)
    end = one.replica.log_end_offset
    assert one.ask(UpgradeVersionRequest(1)).error is Error.NONE
    assert one.ask(UpgradeVersionRequest(0)).error is Error.INVALID_UPDATE_VERSION
    assert one.replica.log_end_offset == end


def test_only_a_leader_that_has_committed_raises_it() -> None:
    """Kafka 4.1, upgradeKRaftVersion."""
    assert One(1).ask(UpgradeVersionRequest(1)).error is Error.NOT_LEADER_OR_FOLLOWER
    early = leading(committed=False)
    assert early.ask(UpgradeVersionRequest(1)).error is Error.REQUEST_TIMED_OUT


def test_a_lone_voter_needs_to_hear_from_nobody() -> None:
    """KIP-853."""
    one = leading(1)
    one.ask(UpgradeVersionRequest(1))
    assert [r.error for r in outcome(one)] == [Error.NONE]
    assert one.replica.voters == keyed_voters(1)


# ---------------------------------------------------------------- the follower tells


def following() -> One:
    return One(1, key=key(1), listeners=listeners(1), election=ElectionState(1, 2))


def until_told(one: One, patience_ms: int = 20_000) -> int | None:
    """Fetch until the follower tells its leader; gives the time that took, None if it does not."""
    began_ms = one.now_ms
    while not one.sends(UpdateVoterRequest):
        if one.now_ms >= began_ms + patience_ms:
            return None
        one.wait(100)
        one.fetched(hwm=0)
    return one.now_ms - began_ms


@pytest.mark.parametrize("error", [Error.NONE, Error.UNSUPPORTED_VERSION])
def test_a_static_voter_tells_each_leader_once(error: Error) -> None:
    """Kafka 4.1: after three fetch timeouts; a leader before 4.1 answers UNSUPPORTED_VERSION."""
    one = following()
    assert until_told(one) == 6_000
    send = one.sent(UpdateVoterRequest)
    request = send.request
    assert isinstance(request, UpdateVoterRequest)
    assert (request.voter, request.listeners, request.kraft_versions) == (
        key(1),
        listeners(1),
        KRAFT_VERSIONS,
    )
    one.answer(send, VoterChangeResponse(error, 1, 2))
    assert until_told(one) is None


def test_a_refused_one_is_repeated() -> None:
    """Kafka 4.1: with the next period."""
    one = following()
    until_told(one)
    one.answer(one.sent(UpdateVoterRequest), VoterChangeResponse(Error.REQUEST_TIMED_OUT, 1, 2))
    assert until_told(one) == 6_000


def test_a_leader_that_does_not_know_the_request_is_not_asked_again() -> None:
    """Kafka before 3.9 has no UpdateRaftVoter."""
    one = following()
    until_told(one)
    one.fail(one.sent(UpdateVoterRequest), unsupported=True)
    assert until_told(one) is None
