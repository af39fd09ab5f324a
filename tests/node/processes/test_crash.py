"""Power cuts under a whole node: whatever it told others before is kept by whoever starts after it.

``test_log_crash`` does the same to log and files alone, at every byte. Here the promises are those
that left the node: votes, fetches, announcements, acknowledged writes.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from node.core import inputs
from node.core.elections import Elections
from node.core.follower.fetching import Fetching
from node.core.leader.replication import Replication
from node.core.messages import (
    Error,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersion,
    LeaderChange,
    VoteRequest,
    VoteResponse,
    Voters,
)
from node.core.roles import Leader
from node.core.types import OffsetAndEpoch, ReplicaKey
from node.core.votes import Votes
from node.log.file_log import FileLog, Flush
from node.log.memory_disk import MemoryDisk, PowerCutError
from node.log.snapshots import SnapshotStore
from node.metadata.records import encode_record
from tests.support.nodes.crash_check import check
from tests.support.nodes.crash_node import (
    KEYS,
    ME,
    PARTITION,
    HandNode,
    NotingLog,
    Promises,
    control_batch,
    formatted,
    topic_batch,
    topic_records,
)
from tests.support.nodes.driver import in_loop

INSTALLED = OffsetAndEpoch(80, 7)


@dataclass
class History:
    """A node's life: votes, fetches, a divergence, a reign, snapshots, an install."""

    disk: MemoryDisk
    promises: Promises
    started: HandNode | None = None

    @property
    def node(self) -> HandNode:
        assert self.started is not None, "it has not started"
        return self.started

    def run(self) -> None:
        noting = partial(NotingLog, self.promises)
        self.started = HandNode(self.disk, self.promises, log=noting)
        try:
            self._votes()
            self._follows()
            self._diverges()
            self._leads()
            self._resigns()
            self._installs()
            self._stops()
        finally:
            self.node.node.halt()

    def _end(self) -> int:
        return self.node.log.end_offset

    def _votes(self) -> None:
        node = self.node
        assert node.vote(2, 1, pre=True).granted
        assert node.vote(2, 1).granted
        assert not node.vote(3, 1).granted
        assert node.vote(2, 1).granted
        assert node.vote(3, 2).granted

    def _follows(self) -> None:
        node, voters = self.node, self.node.node.voters
        node.follow(3, 2)
        change = LeaderChange(3, (1, 2, 3), (1, 3))
        node.fetched(control_batch(0, 2, change, KRaftVersion(1), Voters(voters)))
        node.fetched(topic_batch(3, 2, "a", "b", "c"), topic_batch(6, 2, "d"), hwm=3)
        node.fetched(*(topic_batch(n, 2, f"e{n}") for n in range(7, 12)), hwm=9)

    def _diverges(self) -> None:
        """Leader 2 has epoch 2 only up to 9; its high watermark makes the first snapshot due."""
        node = self.node
        node.follow(2, 3)
        self.promises.kept_below(9)
        node.fetched(diverging=OffsetAndEpoch(9, 2))
        assert self._end() == 9
        node.fetched(control_batch(9, 3, LeaderChange(2, (1, 2, 3), (2, 3))), hwm=9)
        for n in range(4):
            at = self._end()
            batches = [topic_batch(at + i, 3, f"f{n}{i}" * 9) for i in range(3)]
            node.fetched(*batches, hwm=at + 3)
        assert [s for s in node.log.snapshots.infos if s.id.offset]

    def _leads(self) -> None:
        """Elected by pre-votes and votes; clients' writes are acknowledged and cleaned away."""
        node = self.node
        node.wait(2_500)
        yes = VoteResponse(Error.NONE, 3, 2, granted=True)
        node.answer(VoteRequest, yes, peer=3)
        assert node.node.replica.role == "candidate"
        node.answer(VoteRequest, VoteResponse(Error.NONE, 4, None, granted=True), peer=2)
        assert node.node.replica.is_leader
        node.replicate(3, 0)
        for n in range(4):
            node.replicate(2)
            node.create(f"g{n}" * 20)
            node.create(f"h{n}" * 20, had_by=3)
            node.node.pump.enqueue(node.node.snapshots.clean)
            node.turn()
        assert len(self.promises.acked) == 8
        assert node.log.start_offset > 0

    def _resigns(self) -> None:
        node = self.node
        node.step(inputs.Resign(4))
        assert node.node.replica.role == "resigned"
        node.wait(2_500)
        assert node.vote(2, 6).granted

    def _installs(self) -> None:
        """Leader 2 has gone so far that its log begins after ours."""
        node = self.node
        node.follow(2, 7)
        node.fetched(snapshot=INSTALLED)
        theirs = self._snapshot()
        size = theirs.infos[0].size
        self.promises.installing = INSTALLED
        for position in range(0, size, 200):
            data, _ = theirs.read_chunk(INSTALLED, position, 200)
            chunk = FetchSnapshotResponse(
                Error.NONE, 7, 2, snapshot=INSTALLED, size=size, position=position, data=data
            )
            node.answer(FetchSnapshotRequest, chunk)
        assert (node.log.start_offset, self._end()) == (80, 80)
        for n in range(6):
            node.fetched(topic_batch(80 + n, 7, f"i{n}" * 9), hwm=80 + n)

    def _snapshot(self) -> SnapshotStore:
        """The leader's: it holds what was acknowledged, which is committed."""
        store = SnapshotStore(MemoryDisk(), PARTITION)
        writer = store.create(
            INSTALLED,
            last_contained_log_timestamp_ms=7,
            kraft_version=1,
            voters=self.node.node.voters,
        )
        writer.append([encode_record(r) for r in topic_records([*self.promises.acked, "theirs"])])
        writer.freeze()
        return store

    def _stops(self) -> None:
        self.node.step(inputs.Shutdown())
        self.node.node.close("test over")


QUIET = ("read", "listdir")  # they change nothing


def cut_power_everywhere(
    disk: MemoryDisk, promises: Promises, *, coarse: bool = False
) -> dict[str, int]:
    """Run the history; at each operation look at what a power cut would leave. Counts the cuts.

    A ``coarse`` one does not look into writes, and what was not fsynced is always lost. The finer
    one also looks at what a kill leaves; ``check`` cuts the power after the restart.
    """
    points: dict[str, int] = {}

    def cut(operation: str, path: Path) -> None:
        if operation in QUIET:
            return
        size = len(disk.writing) if operation == "append" and not coarse else 0
        parts = {0, 1, size // 4, size // 2, size - size // 4, size - 1, size}
        for part in sorted(parts & set(range(size + 1))):
            for lose_others in (True,) if coarse else (True, False):
                points[operation] = points.get(operation, 0) + 1
                check(disk.torn(path, part, lose_others=lose_others), promises)

        if not coarse:
            points["kill"] = points.get("kill", 0) + 1
            check(disk.killed(), promises)

    disk.fault = cut
    History(disk, promises).run()
    return points


@in_loop
async def test_no_promise_of_a_node_is_broken_by_a_power_cut() -> None:
    """Before every operation on the disk, and within every write at some of its bytes.

    Each twice: what other files had in the page cache is lost, or kept.
    """
    promises = Promises()
    points = cut_power_everywhere(formatted(), promises)
    total = sum(points.values())
    print(f"power cuts under a node: {total} points, {points}, {promises.told} promises")  # noqa: T201 - shown by pytest -s
    assert promises.votes == {1: KEYS[2], 2: KEYS[3], 4: ME, 6: KEYS[2]}
    assert promises.led == {4}
    assert total > 1000
    assert promises.told > 80
    changes = {"open", "append", "truncate", "fsync", "fsync_dir", "rename", "unlink"}
    assert set(points) == changes | {"kill"}


@in_loop
async def test_a_vote_given_again_after_a_kill_survives_a_power_cut() -> None:
    """The killed process had renamed quorum-state, and not yet fsynced the directory."""
    for failing in range(1, 100):
        disk, promises = formatted(), Promises()
        node = HandNode(disk, promises)
        disk.cut_power_at(failing)
        try:
            node.vote(2, 1)
        except PowerCutError:
            disk.cut_at = None
            disk.kill()
        else:
            break
        again = HandNode(disk, promises)
        assert again.vote(2, 1).granted
        again.node.halt()
        disk.crash()
        check(disk, promises)
    assert failing > 5


def _vote_without_disk(votes: Votes, candidate: ReplicaKey) -> None:
    """In memory only."""


def _with_what_is_written(replication: Replication, role: Leader) -> int:
    """The leader counts itself up to the end of its log."""
    others = [p.end_offset or 0 for p in role.progress.voters.values() if p.key != ME]
    return sorted([*others, replication._state.log.end])[1]


BUGS: dict[str, tuple[type, str, Any]] = {
    "a vote is not written": (Votes, "_persist_vote", _vote_without_disk),
    "the log is never fsynced": (Flush, "run", lambda _: None),
    "a fetch does not wait for the fsync": (Fetching, "_is_durable", lambda _: True),
    "a former leader leads on": (
        Elections,
        "_start_resigned",
        lambda e: e._start_unattached(e._state.election.epoch, None, None, "bug"),
    ),
    "names are not fsynced": (MemoryDisk, "fsync_dir", lambda *_: None),
    "an install leaves the old log": (FileLog, "truncate_fully_to", lambda *_: None),
    "acknowledged when written": (Replication, "_quorum_end_offset", _with_what_is_written),
}


@pytest.mark.parametrize("bug", BUGS)
@in_loop
async def test_a_node_that_breaks_promises_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this the test above would prove nothing."""
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises(AssertionError):
        cut_power_everywhere(formatted(), Promises(), coarse=True)


class DiskError(OSError):
    """The one that a test has caused."""


@dataclass
class Failing:
    """A disk whose ``at``-th operation fails, and what a power cut right then would leave of it."""

    at: int
    code: int
    disk: MemoryDisk = field(default_factory=formatted)
    promises: Promises = field(default_factory=Promises)
    operations: int = 0
    remains: list[MemoryDisk] = field(default_factory=list)
    told: int | None = None

    def __post_init__(self) -> None:
        self.disk.fault = self._fail

    def _fail(self, operation: str, path: Path) -> None:
        if operation in QUIET:
            return
        self.operations += 1
        if self.operations == self.at:
            # Some of the write may have come to the disk.
            half = len(self.disk.writing) // 2 if operation == "append" else 0
            self.remains += [self.disk.torn(path, half, lose_others=x) for x in (True, False)]
            self.told = self.promises.told
            raise DiskError(self.code, f"{operation} {path}")


@pytest.mark.parametrize(("first", "code"), [(1, errno.EIO), (4, errno.ENOSPC)])
@in_loop
async def test_a_disk_that_fails_stops_the_node_for_good(first: int, code: int) -> None:
    """At any operation: nobody is told anything more, and the next start keeps what was told."""
    for at in range(first, 10_000, 7):
        failing = Failing(at, code)
        history = History(failing.disk, failing.promises)
        try:
            history.run()
        except DiskError:
            assert failing.promises.told == failing.told
            if history.started is not None:
                assert history.started.node.pump.stopped
        else:
            assert failing.operations < at
            break
        for disk in failing.remains:
            check(disk, failing.promises)
    assert at > 150
