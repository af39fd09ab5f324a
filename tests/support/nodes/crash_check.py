"""Whether a node that starts on what is left of a disk keeps what was promised before."""

from __future__ import annotations

from node.core import inputs
from node.core.messages import BeginQuorumEpochRequest, FetchRequest, Records, VoteRequest
from node.core.types import ElectionState
from node.log.file_log import FileLog
from node.log.layout import is_leftover
from node.log.memory_disk import MemoryDisk
from node.log.quorum_state import ElectionStateStore
from tests.support.nodes.crash_node import CONFIG, DIR, KEYS, ME, PARTITION, HandNode, Promises


def check(disk: MemoryDisk, promises: Promises) -> None:
    """A node that starts on ``disk`` keeps every promise; the checks bear the invariants' names."""
    after = Promises(written=list(promises.written))
    node = HandNode(disk, after)
    try:
        _check_start(node, promises)
        _check_election(node, promises)
        _check_log(disk, node.log, promises)
        _check_acknowledged(node, promises)
        _check_silence(node, promises)
    finally:
        node.node.halt()
    fetched = [s.request.offset for s in node.sends if isinstance(s.request, FetchRequest)]
    end, state = node.log.end_offset, node.node.replica.election_state
    assert set(fetched) <= {end}
    disk.crash()  # S3, S16: what the restarted node has told of is on the disk as well
    log = FileLog(disk, DIR, segment_bytes=CONFIG.segment_bytes)
    assert log.end_offset == end
    log.close()
    assert (ElectionStateStore(disk, DIR).load() or ElectionState()) == state


def _check_start(node: HandNode, promises: Promises) -> None:
    """S3, S25: what it says of itself at first is what it has, and nothing older than was told."""
    type_, _, told = node.tracer.events[0]
    log = node.log
    assert type_ == "start"
    assert (told["log_start"], told["leo"]) == (log.start_offset, log.end_offset)
    assert told["last_ep"] == log.last_epoch
    assert told["snaps"] == [list(info.id) for info in log.snapshots.infos]
    assert told["qs"]["ep"] >= promises.epoch


def _check_election(node: HandNode, promises: Promises) -> None:
    """S2, S3, S4, S26: epochs, votes and reigns are remembered, and nobody gets a second vote."""
    replica = node.node.replica
    state: ElectionState = replica.election_state
    assert state.epoch >= promises.epoch
    assert replica.epoch >= promises.epoch
    vote = promises.votes.get(state.epoch)
    if vote is not None:
        assert state.voted == vote
    if state.epoch in promises.led:
        assert (state.leader_id, replica.role) == (ME.id, "resigned")
    for epoch, given in promises.votes.items():
        for candidate, key in KEYS.items():
            if candidate != ME.id and key != given:
                assert not node.vote(candidate, epoch).granted
    for epoch in promises.led:
        assert not node.vote(2, epoch).granted


def _check_log(disk: MemoryDisk, log: FileLog, promises: Promises) -> None:
    """S16, S23, S24, S25: a clean prefix of what was written, with all that was told of."""
    start = log.start_offset
    found = list(log.batches(start))
    installed = promises.installing is not None and start >= promises.installing.offset
    floor = promises.installing.offset if promises.installing and installed else start
    written = [b for b in promises.written if b.base_offset >= floor]
    assert found == written[: len(found)]
    kept = [b for b in promises.durable if b.base_offset >= floor]
    assert found[: len(kept)] == kept
    infos = [info.id for info in log.snapshots.infos]
    for snapshot in infos:
        with log.snapshots.open(snapshot) as reader:
            assert sum(1 for _ in reader.batches()) > 1
    assert start == 0 or start in [snapshot.offset for snapshot in infos]
    assert not [name for name in disk.listdir(PARTITION) if is_leftover(name)]
    assert log.flushed_offset == log.end_offset


def _check_acknowledged(node: HandNode, promises: Promises) -> None:
    """S17: what a client was told is in the log, or in the snapshot that the image comes from."""
    image = node.node.machine.image
    names = {topic.name for topic in image.topics.values()}
    for name, offset in promises.acked.items():
        if offset < node.node.machine.applied:
            assert name in names
        else:
            assert any(b.base_offset <= offset <= b.last_offset for b in node.log.batches(offset))


def _check_silence(node: HandNode, promises: Promises) -> None:
    """S26: alone it leads nobody and writes nothing, least of all in an epoch that it led."""
    end = node.log.end_offset
    node.step(inputs.Propose(10**6, node.node.replica.epoch, (Records(1, None),)))
    for _ in range(3):
        node.wait(2_500)
        assert not node.node.replica.is_leader
    assert node.log.end_offset == end
    assert not [s for s in node.sends if isinstance(s.request, BeginQuorumEpochRequest)]
    assert not [
        s
        for s in node.sends
        if isinstance(s.request, VoteRequest)
        and not s.request.pre_vote
        and promises.votes.get(s.request.epoch, ME) != ME
    ]
