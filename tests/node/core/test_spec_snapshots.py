"""One test per sentence of the KRaft proposals about snapshots: serving, fetching, installing."""

from __future__ import annotations

from typing import Any

import pytest

from node.core import effects as fx
from node.core import inputs
from node.core.config import LogState
from node.core.messages import Error, FetchRequest, FetchSnapshotRequest, SnapshotRange
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey, SnapshotInfo
from tests.support.raft.one import CLUSTER_ID, One, batch, keyed_voters

S5 = OffsetAndEpoch(5, 2)
S8 = OffsetAndEpoch(8, 3)
BOOTSTRAP = SnapshotInfo(OffsetAndEpoch(0, 0), 40)


def cleaned(*snapshots: OffsetAndEpoch, start: int = 5) -> LogState:
    """A log of 5..9, epoch 2 at its beginning and 3 from 6 on, after those snapshots."""
    infos = (BOOTSTRAP, *(SnapshotInfo(s, 100) for s in snapshots or (S5,)))
    return LogState(start, 10, 10, ((2, start), (3, 6)), infos)


def leader(**more: Any) -> One:
    """A leader of that log; its own record is at 10."""
    one = One(election=ElectionState(3), log=cleaned(), **more)
    one.lead()
    return one


def follower(log: LogState | None = None, **more: Any) -> One:
    return One(election=ElectionState(4, 2), log=log, **more)


def ask_snapshot(one: One, id_: OffsetAndEpoch = S5, position: int = 0, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "epoch": one.replica.epoch,
        "max_bytes": 30,
        "replica": ReplicaKey(2),
    } | more
    return one.ask(FetchSnapshotRequest(snapshot=id_, position=position, **fields))


# ---------------------------------------------------------------- Fetch, answered by a snapshot


@pytest.mark.parametrize(
    ("offset", "last_epoch"),
    [
        pytest.param(0, 0, id="nothing yet"),
        pytest.param(3, 2, id="below the log"),
        pytest.param(5, 1, id="at the log start, of another epoch"),
        pytest.param(7, 1, id="of an epoch before the snapshot"),
    ],
)
def test_a_fetch_before_the_log_is_sent_to_the_snapshot(offset: int, last_epoch: int) -> None:
    """KIP-630, "Fetch": the response names the snapshot that must be fetched first."""
    one = leader()
    response = one.fetch(2, offset, last_epoch)
    assert response is not None
    assert (response.snapshot, response.records, response.diverging) == (S5, None, None)
    assert response.log_start_offset == 5
    assert one.traces("fetch_rx")[0]["res"] == "snapshot"


def test_a_fetch_at_the_snapshots_end_reads_on() -> None:
    """KIP-630, "Fetch": the log start with the epoch of the snapshot is a valid point."""
    response = leader().fetch(2, 5, 2)
    assert response is not None
    assert response.snapshot is None
    assert response.records is not None
    assert response.records.offset == 5


def test_the_newest_of_several_snapshots_is_named() -> None:
    """KIP-630, "Fetch": it is the latest snapshot."""
    one = One(election=ElectionState(3), log=cleaned(S5, S8))
    one.lead()
    response = one.fetch(2, 3, 2)
    assert response is not None
    assert response.snapshot == S8


def test_a_new_replica_begins_with_the_snapshot_even_where_the_log_is_whole() -> None:
    """Kafka 4.1, validateFetchOffsetAndEpoch: offset 0 with a snapshot beyond the bootstrap one."""
    infos = (BOOTSTRAP, SnapshotInfo(S5, 100))
    one = One(election=ElectionState(3), log=LogState(0, 10, 10, ((2, 0), (3, 6)), infos))
    one.lead()
    response = one.fetch(2, 0, 0)
    assert response is not None
    assert response.snapshot == S5


def test_the_bootstrap_snapshot_is_never_replicated() -> None:
    """KIP-853, "Bootstrapping": each node has its own."""
    one = One(log=LogState(snapshots=(BOOTSTRAP,)))
    one.lead()
    response = one.fetch(2, 0, 0)
    assert response is not None
    assert response.snapshot is None
    assert response.records is not None
    assert ask_snapshot(one, BOOTSTRAP.id).error is Error.SNAPSHOT_NOT_FOUND


def test_a_fetch_for_a_snapshot_is_no_progress() -> None:
    """KIP-595: only a valid fetch counts for the quorum."""
    one = leader()
    for _ in range(4):
        one.wait(1_000)
        one.fetch(2, 3, 2)
    assert one.replica.role == "resigned"


def test_divergence_at_the_snapshot_names_its_epoch() -> None:
    """Kafka 4.1, endOffsetForEpoch: where the log begins, the snapshot knows the epoch."""
    infos = (SnapshotInfo(OffsetAndEpoch(5, 1), 100),)
    one = One(election=ElectionState(3), log=LogState(5, 10, 10, ((3, 5),), infos))
    one.lead()
    response = one.fetch(2, 7, 2)
    assert response is not None
    assert response.diverging == (5, 1)


def test_records_that_are_nowhere_are_refused() -> None:
    """A log that was cleaned without a snapshot cannot serve its beginning."""
    one = One(election=ElectionState(3), log=LogState(5, 10, 10, ((3, 5),)))
    one.lead()
    response = one.fetch(2, 3, 3)
    assert response is not None
    assert response.error is Error.UNKNOWN_SERVER_ERROR


# ---------------------------------------------------------------- FetchSnapshot, serving


@pytest.mark.parametrize(("position", "length"), [(0, 30), (60, 30), (90, 10)])
def test_a_snapshot_is_served_in_chunks(position: int, length: int) -> None:
    """KIP-630, "FetchSnapshot": position, size and at most so many bytes."""
    response = ask_snapshot(leader(), position=position)
    assert (response.error, response.size, response.position) == (Error.NONE, 100, position)
    assert response.chunk == SnapshotRange(S5, position, length)


def test_a_chunk_is_no_larger_than_the_leader_allows() -> None:
    """KIP-630, "FetchSnapshot": bounded by the leader's configuration too."""
    response = ask_snapshot(leader(fetch_snapshot_max_bytes=7))
    assert response.chunk == SnapshotRange(S5, 0, 7)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"id_": OffsetAndEpoch(5, 3)}, Error.SNAPSHOT_NOT_FOUND),
        ({"id_": OffsetAndEpoch(-1, -1)}, Error.SNAPSHOT_NOT_FOUND),
        ({"position": 100}, Error.POSITION_OUT_OF_RANGE),
        ({"position": -1}, Error.POSITION_OUT_OF_RANGE),
        ({"max_bytes": -1}, Error.INVALID_REQUEST),
        ({"epoch": 3}, Error.FENCED_LEADER_EPOCH),
        ({"epoch": 5}, Error.UNKNOWN_LEADER_EPOCH),
        ({"cluster_id": "other"}, Error.INCONSISTENT_CLUSTER_ID),
    ],
)
def test_what_a_snapshot_request_may_be_refused_for(more: dict[str, Any], error: Error) -> None:
    """KIP-630, "FetchSnapshot": the errors of its response."""
    response = ask_snapshot(leader(), **more)
    assert response.error is error
    assert response.chunk is None


def test_only_the_leader_serves_snapshots() -> None:
    """KIP-630, "FetchSnapshot": others say who leads."""
    response = ask_snapshot(follower(cleaned()))
    assert (response.error, response.leader_id) == (Error.NOT_LEADER_OR_FOLLOWER, 2)


def test_fetching_a_snapshot_keeps_the_leader() -> None:
    """KAFKA-15489: FetchSnapshot counts for check quorum."""
    one = leader()
    for _ in range(6):
        one.wait(1_000)
        ask_snapshot(one)
    assert one.replica.role == "leader"


def test_another_disks_snapshot_fetch_does_not_keep_the_leader() -> None:
    """KIP-853: only the voter's very disk counts."""
    one = One.dynamic(log=keyed_log())
    one.lead()
    for _ in range(4):
        one.wait(1_000)
        ask_snapshot(one, replica=ReplicaKey(2))
    assert one.replica.role == "resigned"


def keyed_log() -> LogState:
    log = cleaned()
    return LogState(5, 10, 10, log.epochs, log.snapshots, ((4, keyed_voters(1, 2, 3)),), ((4, 1),))


# ---------------------------------------------------------------- FetchSnapshot, fetching


def downloading(id_: OffsetAndEpoch = S8, **more: Any) -> One:
    one = follower(**more)
    one.fetched(snapshot=id_)
    return one


@pytest.mark.parametrize("own", [1 << 20, 300])
def test_a_follower_that_is_sent_to_a_snapshot_fetches_it(own: int) -> None:
    """KIP-630, "Fetch": the follower opens the snapshot and asks for its first bytes.

    It asks for as much as its setting says.
    """
    one = downloading(fetch_snapshot_max_bytes=own)
    assert one.of(fx.OpenSnapshot) == [fx.OpenSnapshot(S8)]
    (send,) = one.sends(FetchSnapshotRequest)
    assert send.peer == 2
    assert send.request == FetchSnapshotRequest(ReplicaKey(1), 4, S8, 0, own, CLUSTER_ID)


def test_the_bytes_are_written_in_order_and_asked_for_until_the_end() -> None:
    """KIP-630, "FetchSnapshot": the next position is what has been received."""
    one = downloading(auto_install=False)
    one.chunk(b"a" * 60)
    assert one.of(fx.WriteSnapshot) == [fx.WriteSnapshot(S8, 0, b"a" * 60)]
    (send,) = one.sends(FetchSnapshotRequest)
    assert isinstance(send.request, FetchSnapshotRequest)
    assert send.request.position == 60
    one.chunk(b"b" * 40)
    assert one.of(fx.WriteSnapshot) == [fx.WriteSnapshot(S8, 60, b"b" * 40)]
    assert one.of(fx.InstallSnapshot) == [fx.InstallSnapshot(S8)]
    assert one.of(fx.Send) == []


def test_nothing_is_fetched_while_a_snapshot_is_being_fetched() -> None:
    """Two fetches in flight would append the same offsets twice."""
    one = downloading()
    for _ in range(5):
        one.wait(300)
        assert one.of(fx.Send) == []


def test_an_installed_snapshot_is_the_log() -> None:
    """KIP-630: the log begins and ends with it, and all of it is committed."""
    one = downloading(log=LogState(0, 3, 3, ((1, 0),)))
    one.chunk(b"a" * 100)
    replica = one.replica
    assert (replica.log_start_offset, replica.log_end_offset, replica.high_watermark) == (8, 8, 8)
    assert replica.flushed_offset == 8
    assert replica.last == S8
    assert replica.snapshots == (SnapshotInfo(S8, 100),)
    assert one.of(fx.HighWatermarkAdvanced) == [fx.HighWatermarkAdvanced(8)]
    assert [t["id"] for t in one.traces("snap")] == [[8, 3]]
    assert one.traces("lstart") == [{"v": 8}]
    (send,) = one.sends(FetchRequest)
    assert isinstance(send.request, FetchRequest)
    assert (send.request.offset, send.request.last_fetched_epoch) == (8, 3)


def test_records_go_on_after_an_installed_snapshot() -> None:
    """KIP-630: replication continues at its end offset."""
    one = downloading()
    one.chunk(b"a" * 100)
    one.fetched(batch(8, 9, 3), batch(10, 10, 4), hwm=11)
    assert one.replica.last == (11, 4)
    assert one.replica.high_watermark == 11


def test_the_voters_of_an_installed_snapshot_are_in_force() -> None:
    """KIP-853: snapshots carry the voters; what the log said before them is gone."""
    one = One.dynamic(1, election=ElectionState(4, 2), auto_install=False)
    one.fetched(snapshot=S8)
    one.chunk(b"a" * 100)
    voters = keyed_voters(2, 3)
    installed = inputs.SnapshotInstalled(SnapshotInfo(S8, 100), voters, 1)
    one.step(installed)
    assert one.of(fx.VotersChanged) == [fx.VotersChanged(voters, 1)]
    assert not one.replica.is_voter
    assert (one.replica.voters, one.replica.kraft_version) == (voters, 1)


def test_an_install_is_traced_with_the_digest_of_its_file() -> None:
    """KRaft S22: whoever has a snapshot of that id can be compared, who fetched it too."""
    one = downloading(auto_install=False)
    one.chunk(b"a" * 100)
    one.step(inputs.SnapshotInstalled(SnapshotInfo(S8, 100), None, 0, "5a"))
    (trace,) = one.traces("snap")
    assert (trace["op"], trace["sha"], trace["size"]) == ("install", "5a", 100)


def test_an_uncommitted_set_gives_way_to_one_of_the_same_offset() -> None:
    """KIP-853: the set is the snapshot's, though its record had the offset of the lost one."""
    lost, kept = keyed_voters(1, 2, 3, 4), keyed_voters(1, 2)
    log = LogState(0, 8, 8, ((1, 0),), (), ((0, keyed_voters(1, 2, 3)), (7, lost)), ((0, 1),))
    one = One.dynamic(1, election=ElectionState(4, 2), log=log, auto_install=False)
    one.fetched(snapshot=OffsetAndEpoch(8, 3))
    one.chunk(b"a" * 100)
    one.step(inputs.SnapshotInstalled(SnapshotInfo(S8, 100), kept, 1))
    assert one.replica.voters == kept
    assert one.of(fx.VotersChanged) == [fx.VotersChanged(kept, 1)]


def test_each_chunk_resets_the_fetch_timer() -> None:
    """KIP-630: a follower that receives a snapshot does not stand."""
    one = downloading()
    for _ in range(9):
        one.wait(1_500)
        one.chunk(b"a" * 10)
    assert one.replica.role == "follower"


def test_silence_during_a_download_ends_it() -> None:
    """KIP-595: the fetch timeout makes it stand, and the partial snapshot goes."""
    one = downloading()
    one.wait(2_000)
    assert one.of(fx.DiscardSnapshot) == [fx.DiscardSnapshot(S8)]
    assert one.replica.role == "prospective"


def test_a_new_leader_ends_a_download() -> None:
    """KIP-595: what was begun with another leader does not go on."""
    one = downloading()
    one.begin(3, 5)
    assert one.of(fx.DiscardSnapshot) == [fx.DiscardSnapshot(S8)]
    assert len(one.sends(FetchRequest)) == 1


@pytest.mark.parametrize("error", [Error.SNAPSHOT_NOT_FOUND, Error.POSITION_OUT_OF_RANGE])
def test_a_snapshot_that_is_gone_is_forgotten(error: Error) -> None:
    """Kafka 4.1, handleFetchSnapshotResponse: Fetch again, to hear of a newer one."""
    one = downloading()
    one.chunk(error=error)
    assert one.of(fx.DiscardSnapshot) == [fx.DiscardSnapshot(S8)]
    assert len(one.sends(FetchRequest)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"snapshot": S5},
        {"snapshot": None},
        {"position": 30},
        {"position": -1},
        {"size": 0},
        {"size": 200},
        {"size": 50},
    ],
)
def test_bytes_that_do_not_fit_begin_the_download_again(wrong: dict[str, Any]) -> None:
    """Where Kafka dies: somebody is wrong, but that is no reason to."""
    one = downloading()
    one.chunk(b"a" * 40)
    one.chunk(**({"data": b"b" * 20} | wrong))
    assert one.of(fx.OpenSnapshot) == [fx.OpenSnapshot(S8)]
    assert one.of(fx.WriteSnapshot) == []
    assert one.of(fx.Send) == []
    one.wait(20)
    (send,) = one.sends(FetchSnapshotRequest)
    assert isinstance(send.request, FetchSnapshotRequest)
    assert send.request.position == 0


def test_an_empty_chunk_is_asked_for_again_but_not_at_once() -> None:
    """It is no progress: neither does it reset the fetch timer."""
    one = downloading()
    one.chunk(b"")
    assert one.of(fx.Send) == []
    one.wait(20)
    assert len(one.sends(FetchSnapshotRequest)) == 1
    one.wait(1_980)
    assert one.replica.role == "prospective"


def test_any_other_error_is_waited_out() -> None:
    """Kafka 4.1: the request is repeated after the retry backoff."""
    one = downloading()
    one.chunk(error=Error.UNKNOWN_SERVER_ERROR)
    assert one.of(fx.Send) == []
    one.wait(20)
    assert len(one.sends(FetchSnapshotRequest)) == 1


def test_a_rejected_snapshot_is_forgotten() -> None:
    """The bytes were no snapshot: the leader is asked again what to do, but not at once."""
    one = downloading(auto_install=False)
    one.chunk(b"a" * 100)
    one.step(inputs.SnapshotRejected(S8, "no footer"))
    assert one.replica.log_end_offset == 0
    assert one.of(fx.Send) == []
    one.wait(20)
    assert len(one.sends(FetchRequest)) == 1


def test_a_snapshot_that_nobody_asked_for_is_fatal() -> None:
    """The disk would not be what the replica believes it is."""
    one = follower()
    one.step(inputs.SnapshotInstalled(SnapshotInfo(S8, 100), None, 0))
    assert len(one.of(fx.Fatal)) == 1


@pytest.mark.parametrize(
    ("id_", "why"),
    [
        (OffsetAndEpoch(0, 0), "the bootstrap snapshot"),
        (OffsetAndEpoch(-1, 3), "no offset"),
        (OffsetAndEpoch(8, -1), "no epoch"),
        (OffsetAndEpoch(20, 5), "newer than the leader"),
        (OffsetAndEpoch(6, 2), "below the newest of its own"),
        (OffsetAndEpoch(9, 3), "it has all of that"),
    ],
)
def test_a_senseless_snapshot_is_not_fetched(id_: OffsetAndEpoch, why: str) -> None:
    """Nothing that is committed is thrown away, whatever a leader says."""
    one = follower(cleaned(S5, S8))
    one.fetched(snapshot=id_)
    assert one.of(fx.OpenSnapshot) == [], why
    assert one.of(fx.Send) == []
    one.wait(20)
    assert len(one.sends(FetchRequest)) == 1


def test_a_snapshot_below_the_high_watermark_is_not_fetched() -> None:
    """KRaft S24: an install never lowers the high watermark."""
    one = follower(LogState(0, 10, 10, ((1, 0), (2, 6))))
    one.fetched(hwm=10)
    one.fetched(snapshot=S8)
    assert one.of(fx.OpenSnapshot) == []


def test_a_snapshot_of_an_older_epoch_replaces_an_uncommitted_tail() -> None:
    """The log ends where the snapshot does, with what a deposed leader wrote; Kafka 4.1 dies."""
    one = follower(LogState(0, 8, 8, ((1, 0), (4, 6))))
    one.fetched(snapshot=S8)
    one.chunk(b"a" * 100)
    assert one.replica.last == S8


def test_records_after_all_end_a_download() -> None:
    """A leader that serves the log does not want a snapshot to be fetched any more."""
    one = downloading()
    one.fail(one.sent(FetchSnapshotRequest))
    one.wait(20)
    one.fail(one.sent(FetchSnapshotRequest))  # twice: it asks others as well
    asked = one.sent(FetchRequest)
    assert asked.peer != 2
    one.fetched(batch(0, 0, 1), hwm=0)
    assert one.of(fx.DiscardSnapshot) == [fx.DiscardSnapshot(S8)]
    assert one.replica.log_end_offset == 1


def test_truncation_goes_no_further_than_a_snapshot() -> None:
    """KIP-630: what a snapshot covers is committed."""
    one = follower(cleaned())
    one.fetched(diverging=OffsetAndEpoch(4, 2))
    assert len(one.of(fx.Fatal)) == 1


def test_a_log_cut_back_to_its_snapshot_has_its_epoch() -> None:
    """KIP-630: the epoch of an empty log is that of the snapshot before it."""
    one = follower(cleaned())
    one.fetched(diverging=S5)
    assert one.of(fx.TruncateLog) == [fx.TruncateLog(5)]
    assert one.replica.last == S5


# ---------------------------------------------------------------- one's own snapshots


def test_cleaning_moves_the_log_start() -> None:
    """KIP-630, "When to Increase the Log Start Offset": to the end of a snapshot."""
    one = follower(LogState(0, 10, 10, ((1, 0), (2, 4), (3, 6))))
    one.fetched(hwm=10)
    one.step(inputs.SnapshotsChanged((SnapshotInfo(S5, 100), SnapshotInfo(S8, 100)), 5))
    assert one.replica.log_start_offset == 5
    assert one.traces("lstart") == [{"v": 5}]
    assert one.replica.last == (10, 3)


def test_a_log_cleaned_to_its_end_keeps_its_epoch() -> None:
    """KIP-101: prefix truncation leaves one entry, moved up."""
    one = follower(LogState(0, 8, 8, ((1, 0), (3, 6))))
    one.fetched(hwm=8)
    one.step(inputs.SnapshotsChanged((SnapshotInfo(S8, 100),), 8))
    assert one.replica.last == S8
    one.fetched(batch(8, 8, 4), hwm=8)
    one.fetched(diverging=OffsetAndEpoch(8, 3))
    assert one.replica.last == S8


@pytest.mark.parametrize("log_start", [4, 11])
def test_a_log_start_that_cannot_be_is_fatal(log_start: int) -> None:
    """It neither goes back nor beyond what is committed."""
    one = follower(cleaned())
    one.step(inputs.SnapshotsChanged((SnapshotInfo(S5, 100),), log_start))
    assert len(one.of(fx.Fatal)) == 1
