"""The protocol event trace: one JSON line per event, written before its effect is visible outside.

Every line has ``ts`` (CLOCK_MONOTONIC of the node's host, ns), ``seq`` (1, 2, 3... within one
process), ``node`` (id), ``dir`` (directory id, 32 hex digits), ``inc`` (incarnation: the process
start in ns, so it sorts), ``ep`` (epoch of the event) and ``t``, the type, with its own fields:

======== =====================================================================================
t        fields
======== =====================================================================================
start    leo, last_ep, log_start, flushed, qs{ep, leader, voted, voted_dir}, snaps[[offset, epoch]],
         voters[ids], roles[]
role     from, to, leader, voted, why, by   (from/to: unattached prospective candidate leader
         follower resigned, lower case); by = the type of message that caused it, null of none;
         backoff_ms = of a candidate that had lost, and waited by a timer of its own: for how long
qs       leader, voted, voted_dir        after the fsync and rename of quorum-state
votereq  pre, to                         a Vote request leaves for voter ``to``
vote     pre, ok, cand, cand_dir, cl_ep, cl_leo, my_ep, my_leo, req_ep, err, due   a vote was
         answered in the epoch ``ep``, asked for in ``req_ep``; due = when, on the node's clock in
         ms, it will look for another leader: before and after it
elected  grants[ids], voters[keys], es, quorum_ms   es = epoch start, the LEO when leadership was
         won; a key is [id, directory id or null]; quorum_ms = without a majority fetching for so
         long the leader resigns
quorum   ok, heard[[id, dir, ms]], since_ms, quorum_ms   a leader's majority has fetched (told of
         twice in a fetch timeout at most), or has not and the leader resigns; ms = since that
         voter's last Fetch, since_ms = since the majority before
append   base, last, bep, h, ctl, src    bep = epoch of the batch, h = its CRC-32C,
         src = leader | follower
flush    upto                            the log is on disk below ``upto``
trunc    to, was, why                    the log end moved back from ``was`` to ``to``
hwm      v, as, acks[[id, dir, end]], voters   as = leader | follower | observer; the last two only
         as leader
fetch_tx off, last_ep, to                a Fetch leaves; off = own log end
fetch_rx from, from_dir, off, last_ep, req_ep, res, end   res = ok | diverging | snapshot |
         error name; req_ep = the epoch that the fetcher named
voters   off, set[keys], revert          the voter set in force is another one; off = its record
snap     op, id, size, sha, voters[keys], kv   op = freeze | install | delete | reject; id =
         [end offset, epoch], sha = SHA-256 of the file, kv = kraft.version. Of delete held, bytes
         that log and snapshots had at most just before, and age_ms, since its last record
lstart   v                               the log begins at ``v`` now
apply    off, n, st                      state machine applied below ``off``; st = digest
claim    applied                         the controller became active
renounce applied, kept                   the controller stopped being active; kept = changes that
         are not committed and that it still goes by
ack      api, off, hwm                   a client's write, or an administrator's change of the
         voters, whose last record is ``off`` is answered
read     api, off, asked                 a client's read at applied offset ``off`` is answered;
         asked = seq of the newest event when it was asked for
image    off, digest, kind, n            a broker published the image at ``off``; kind = full |
         delta, n = records loaded for it. Of Kafka's image orphans[names], topics that it has not
         and has settings of, and bare, the digest of all but these; open, that of all but its
         passwords, if it has some; settings{topic: part of the digest}, of topics that have some
answered api, ver, off, n, req, res      a controller's answer ``res`` to ``req`` (bodies, base64),
         by the records below ``off``; it came with ``n`` records from there on. Of a controller of
         ours stand_ins[ids], which brokers are taken for registered while none has registered. Of
         Apache Kafka's reads held, how many records from there on were in memory, and not
         committed. Of UpdateFeatures kraft, the kraft.version when it was decided, and of Apache
         Kafka's kraft_after, when it was answered, if no time has passed between them
memory   off, wrong[texts]               of Apache Kafka: a controller compared what it has at
         ``off`` in memory with its node's image, and its indexes with what they are of
delta    off, wrong[texts]               of Apache Kafka: what the deltas up to the image at ``off``
         add up to was compared with that image
catchup  off, from_snapshot, from_log    a broker caught up for the first time, having read so many
         records
reg      b_ep, inc_id, prev, err         a registration was answered; err null, why: it was not
hb       b_ep, off, want_fence, want_shut_down, err, caught_up, fenced, shut_down   a heartbeat was
         answered; off inclusive; err null, why: it was not
creg     inc_id, err, ms                 a registration of a controller was answered, so long
         after it was sent; err null, why: it was not
fence    b_ep, fenced, why               a broker learned that, why = controller | session
isr      tp, replicas, leader, lep, pep, isr, elr, off   a broker learned of a partition; tp =
         [topic id, index], lep and pep its leader and partition epoch
alter    broker, b_ep, tp, req_lep, req_pep, req_isr[[id, b_ep]], err, lep, pep, off   the
         controller answers AlterPartition for ``tp``, which has the epochs lep and pep then; off =
         the last record that the answer may have seen
let_go   broker, b_ep, was, want_fence, leads, need, active[[id, off]], off   the controller tells
         a broker to stop; was = fenced | unfenced | controlled shutdown, leads = anything just
         before, need = what all active brokers must know of, active = how far they had come
expire   broker, b_ep, silent_ms, session_ms, off   the controller fenced a silent broker by the
         record at ``off``
bstate   from, to, name                  a broker's state (NOT_RUNNING...) and KIP-500's name of it
rpc_err  api, peer, req_ep, code         a quorum request was refused; with more of what it asked
         for, as in rpc_ok, and of code 104 foreign: whether it really names another cluster
rpc_ok   api, peer, peer_dir, req_ep     a quorum request other than Vote and Fetch was accepted;
         req_ep null of one that names no epoch. Of AddVoter early, true, if the answer shall not
         wait for the commit; of EndQuorumEpoch, if a voter waits now until it stands,
         preferred[[id, dir]], wait_ms and backoff_ms, the longest that this may be. Of
         FetchSnapshot snap[end offset, epoch] and pos, where the chunk begins
turn     ms, cpu_ms                      a turn of the event loop took longer than the limit, or was
         clearly longer than all before; cpu_ms = of it in which the thread had a CPU
spin     n, as                           a node polls without a pause, for the n-th time in a row;
         as = its role, or observer
stop     why                             orderly end of the process
agent    missing[types]                  of Apache Kafka, whose agent tells for it: the types of
         events that it cannot tell, for a hook has not taken hold
left     file, may[object], torn         of a simulated host: what a loss of power in this instant
         may leave of a file that is replaced as a whole, each content as a restart would read it,
         null = no such file, bad = why nobody could; torn = or a part of a write
durable  begin, upto, from, batches[[base, last, bep, h]], back   of a simulated host: what a loss
         of power would leave of the log; batches = those at ``from`` or above, news since the last
         such event; back = what was cut and may come back
======== =====================================================================================

``vote``, ``fetch_rx`` and ``rpc_ok`` have ``foreign``, true, if the request names another cluster.
``vote``, and ``rpc_ok`` and ``rpc_err`` of BeginQuorumEpoch, have ``voter``, [id, dir], if the
request says for which replica it is.
Unknown offsets, ids and epochs are null. Source: the event list an invariant checker needs to
decide election safety, log matching, commit stability and durability from outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec


class Tracer(Protocol):
    """The receiver of a node's events."""

    @property
    def seq(self) -> int:
        """The number of the newest event; 0 before the first one."""
        ...

    def emit(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        """Take one event, stamped now."""
        ...

    def flush(self) -> None:
        """Write all emitted events out, so that none is lost with the process; raises OSError."""
        ...

    def close(self) -> None:
        """Flush, and take nothing any more."""
        ...


class NoTrace:
    """Drops every event, for a node that nobody watches."""

    seq = 0

    def emit(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        """Drop it."""

    def flush(self) -> None:
        """Do nothing: no event is kept."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


class TraceWriter:
    """Appends events to one file; ``flush`` hands them to the kernel, so SIGKILL loses none."""

    def __init__(
        self,
        path: Path,
        *,
        node: int,
        directory_id: str,
        incarnation: int,
        clock_ns: Callable[[], int],
    ) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._encode = msgspec.json.Encoder().encode
        common = {"node": node, "dir": directory_id, "inc": incarnation}
        self._common = self._encode(common)[1:-1].replace(b"%", b"%%")
        self._heads: dict[str, bytes] = {}
        self._clock_ns = clock_ns
        self._seq = 0
        self._lines: list[bytes] = []

    @property
    def seq(self) -> int:
        """The number of the newest event; 0 before the first one."""
        return self._seq

    def emit(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        """Buffer one event, stamped now."""
        body = self._encode(fields)[1:]
        head = self._heads.get(type_) or self._head(type_)
        self._seq += 1
        comma = b"," if fields else b""
        self._lines.append(head % (self._clock_ns(), self._seq, epoch, comma) + body)

    def _head(self, type_: str) -> bytes:
        """All but the fields, as a format: a tenth of a leader's time went into encoding it."""
        head = b'{"ts":%d,"seq":%d,' + self._common + b',"ep":%d,"t":"' + type_.encode() + b'"%b'
        self._heads[type_] = head
        return head

    def flush(self) -> None:
        """Write buffered events out; call before anything they describe leaves the process."""
        if self._lines:
            self._lines.append(b"")
            data = b"\n".join(self._lines)
            self._lines.clear()
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """Flush and close the file."""
        self.flush()
        os.close(self._fd)
