"""Whatever comes over the network: an answer with the right code, never an exception or a death."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    AddVoterRequest,
    Batch,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersion,
    LeaderChange,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    QuorumEpochResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
    Voters,
)
from node.core.types import (
    ElectionState,
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    VersionRange,
    VoterSet,
)
from tests.support.raft.one import CLUSTER_ID, One, endpoint, keyed_voters, listeners


def in_role(role: str) -> One:
    match role:
        case "unattached":
            return One(election=ElectionState(5))
        case "prospective" | "leader" | "resigned":
            one = One(election=ElectionState(4))
            one.stand()
            if role != "prospective":
                epoch = one.lead()
                one.propose(2)
                if role == "resigned":
                    one.step(inputs.Resign(epoch))
            return one
        case "candidate":
            return One(election=ElectionState(5, None, ReplicaKey(1)))
        case "follower":
            return One(election=ElectionState(5, 2))
        case "downloader":
            one = One(election=ElectionState(5, 2))
            one.fetched(snapshot=OffsetAndEpoch(6, 3))
            return one
        case "changer":
            one = One.dynamic()
            one.lead()
            one.fetch(2, 3)
            one.fetch(4, 3)
            one.ask(AddVoterRequest(one.key_of(4), listeners(4), 1_000))
            return one
        case "dynamic":
            one = One.dynamic(voters=2)
            one.lead()
            one.fetch(2, 3)
            return one
        case _:
            return One(9)


ROLES = ["unattached", "prospective", "candidate", "leader", "resigned", "follower", "observer"]
ROLES += ["downloader", "changer", "dynamic"]
NUMBERS = st.one_of(
    st.integers(-2, 8), st.sampled_from([-(2**63), 2**31 - 2, 2**31 - 1, 2**31, 2**63 - 1, 2**70])
)
IDS = st.one_of(st.integers(-2, 5), st.integers(-(2**31), 2**31))
KEYS = st.builds(ReplicaKey, IDS, st.none() | st.integers(0, 3).map(lambda i: UUID(int=i)))
CLUSTERS = st.sampled_from([None, CLUSTER_ID, "other", ""])
ENDPOINTS = st.none() | st.just(Endpoint("evil", 0))
POINTS = st.builds(OffsetAndEpoch, NUMBERS, NUMBERS)
LISTENERS = st.lists(
    st.builds(Listener, st.sampled_from(["CONTROLLER", "OTHER"]), st.just(Endpoint("evil", 0))),
    max_size=3,
).map(tuple)
VERSIONS = st.builds(VersionRange, NUMBERS, NUMBERS)
SETS = st.sampled_from([VoterSet({}), keyed_voters(1, 2), keyed_voters(2, 3, 4), keyed_voters(1)])
CONTROLS = st.lists(
    st.one_of(
        st.builds(Voters, SETS),
        st.builds(KRaftVersion, NUMBERS),
        st.builds(LeaderChange, IDS, st.just(()), st.just(())),
    ),
    max_size=3,
).map(tuple)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.builds(VoteRequest, KEYS, NUMBERS, POINTS, st.booleans(), st.none() | KEYS, CLUSTERS),
    st.builds(
        BeginQuorumEpochRequest, IDS, NUMBERS, st.just(endpoint(2)), st.none() | KEYS, CLUSTERS
    ),
    st.builds(
        EndQuorumEpochRequest,
        IDS,
        NUMBERS,
        st.lists(KEYS, max_size=40).map(tuple),
        ENDPOINTS,
        CLUSTERS,
    ),
    st.builds(
        FetchRequest,
        KEYS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.none() | NUMBERS,
        CLUSTERS,
    ),
    st.builds(FetchSnapshotRequest, KEYS, NUMBERS, POINTS, NUMBERS, NUMBERS, CLUSTERS),
    st.builds(AddVoterRequest, KEYS, LISTENERS, NUMBERS, CLUSTERS, st.booleans()),
    st.builds(RemoveVoterRequest, KEYS, CLUSTERS),
    st.builds(UpdateVoterRequest, KEYS, NUMBERS, LISTENERS, VERSIONS, CLUSTERS),
    st.builds(ProbeVersionsRequest),
    st.builds(DescribeQuorumRequest),
)
ERRORS = st.sampled_from(Error)
BATCHES = st.builds(
    Batch, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 9), st.booleans(), st.just(b""), CONTROLS
)
RESPONSES = st.one_of(
    st.builds(VoteResponse, ERRORS, NUMBERS, st.none() | IDS, st.booleans(), ENDPOINTS),
    st.builds(QuorumEpochResponse, ERRORS, NUMBERS, st.none() | IDS, ENDPOINTS),
    st.builds(
        FetchResponse,
        ERRORS,
        NUMBERS,
        st.none() | IDS,
        st.none() | NUMBERS,
        NUMBERS,
        ENDPOINTS,
        st.none() | POINTS,
        st.none() | POINTS,
        st.none(),
        st.lists(BATCHES, max_size=3).map(tuple),
    ),
    st.builds(
        FetchSnapshotResponse,
        ERRORS,
        NUMBERS,
        st.none() | IDS,
        ENDPOINTS,
        st.none() | POINTS | st.just(OffsetAndEpoch(6, 3)),
        NUMBERS,
        NUMBERS,
        st.none(),
        st.binary(max_size=9),
    ),
    st.builds(VoterChangeResponse, ERRORS, NUMBERS, st.none() | IDS, ENDPOINTS),
    st.builds(ProbeVersionsResponse, ERRORS, st.none() | VERSIONS),
)


def check(one: One, before: int) -> None:
    assert one.of(fx.Fatal) == []
    assert one.replica.epoch >= before
    assert one.replica.epoch < 2**31
    for send in one.of(fx.Send):
        assert send.endpoint is not None


@pytest.mark.parametrize("role", ROLES)
@given(requests=st.lists(REQUESTS, min_size=1, max_size=4))
def test_any_request_is_answered_once(role: str, requests: list[Request]) -> None:
    one = in_role(role)
    answered: list[int] = []
    asked = one.token
    for request in requests:
        before = one.replica.epoch
        response = one.ask(request)
        answered += [e.token for e in one.of(fx.Reply)]
        check(one, before)
        if response is None:
            assert isinstance(request, FetchRequest | AddVoterRequest | RemoveVoterRequest)
    one.step(inputs.Shutdown())
    answered += [e.token for e in one.of(fx.Reply)]
    assert sorted(t for t in answered if t > asked) == list(range(asked + 1, one.token + 1))


@pytest.mark.parametrize("role", ROLES)
@given(responses=st.lists(RESPONSES, min_size=1, max_size=4))
def test_any_response_is_survived(role: str, responses: list[Any]) -> None:
    one = in_role(role)
    for response in responses:
        before = one.replica.epoch
        sends = [e for e in one.all if isinstance(e, fx.Send)]
        if sends:
            one.answer(sends[-1], response)
        check(one, before)
        one.wait(30)
        check(one, before)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda epoch: VoteRequest(ReplicaKey(2), epoch, OffsetAndEpoch(0, 0), pre_vote=False),
        lambda epoch: BeginQuorumEpochRequest(2, epoch, endpoint(2)),
        lambda epoch: EndQuorumEpochRequest(2, epoch, (), endpoint(2)),
        lambda epoch: FetchRequest(ReplicaKey(2), epoch, 0, 0, 0, 1),
    ],
)
@pytest.mark.parametrize("epoch", [-1, 2**31 - 1, 2**31, 2**63])
def test_an_impossible_epoch_is_invalid(request_of: Callable[[int], Request], epoch: int) -> None:
    one = in_role("leader")
    held = one.replica.epoch
    assert one.ask(request_of(epoch)).error is Error.INVALID_REQUEST
    assert one.replica.epoch == held


def test_the_last_epoch_leaves_a_replica_alive() -> None:
    """No election can follow it; the replica neither spins nor dies."""
    one = One(election=ElectionState(2**31 - 2))
    one.stand()
    one.grant(2, 3, pre_vote=True)
    assert one.replica.role == "prospective"
    one.wait(3_000)
    assert one.replica.role == "unattached"
    assert one.of(fx.Fatal) == []


def test_claims_of_many_observers_cost_a_bounded_amount() -> None:
    one = in_role("leader")
    for node_id in range(10, 2_000):
        one.fetch(node_id, 0, wait_ms=0)
    assert len(one.ask(DescribeQuorumRequest()).observers) <= 1_000
