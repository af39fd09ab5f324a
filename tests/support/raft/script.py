"""The command language of the golden traces in ``tests/testdata/raft``.

A scenario is a text file: prose comments (``#``), then command lines, a line ``----``, and what
the cluster did because of them, up to an empty line. The output is data: it is compared, and
``pytest --rewrite`` writes it anew.

================================= =============================================================
cluster voters=3 observers=1      start that many nodes; also fetch_timeout_ms=... and the like;
                                  dynamic=1 puts the voters into the log
expire 1                          let time pass for node 1 until its role timer fires
advance 1 500                     let 500 ms pass for node 1
deliver 1->2 [n]                  deliver the oldest (n) messages of that direction
duplicate 1->2                    deliver the oldest message of that direction and keep it
drop 1->2 [n]                     lose them; the requester learns it by timeout
refuse 1->2                       lose a request; the requester learns it at once
settle [1 2]                      deliver and flush all there is (among these nodes)
flush 1                           one pending flush of node 1 reaches the disk
cut 1->2 / heal                   hear nothing that way / all hear each other again
isolate 1                         cut node 1 from everybody
crash 1 / start 1                 stop at once, losing what is not flushed / start again
elect 1                           expire and settle until node 1 leads; prints nothing of it
propose 1 2 3                     propose a batch of 2 and one of 3 records to node 1
read 1                            ask node 1 for a read barrier
resign 1 / shutdown 1             the controller resigns / the process is told to leave
freeze 1 / clean 1                node 1 makes a snapshot / begins its log after its newest one
add 1 4 / remove 1 2              ask node 1 to make node 4 a voter / to remove voter 2
wipe 3                            a stopped node gets a new disk
listen 2 CONTROLLER EXTRA         a stopped node will have listeners of these names
disk 1 epoch=4 leader=1 voted=2   set the quorum state of a stopped node (leave out = none)
pre-vote 9->2 epoch=3 log=4@2     hand in a foreign request; likewise vote
status                            every node: role, epoch, leader, log end, high watermark
log                               every node's batches, flushed end
================================= =============================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from node.core import inputs
from node.core.messages import VoteRequest
from node.core.types import ElectionState, Listener, OffsetAndEpoch, ReplicaKey
from tests.support.raft.env import ADMIN, Cluster, Message, endpoint

SEPARATOR = "----"


class Script:
    """Runs one scenario file."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def run(self, text: str) -> str:
        """The same text with every output as it really is."""
        out: list[str] = []
        commands: list[str] = []
        lines = iter(text.splitlines())
        for line in lines:
            if line == SEPARATOR:
                result = self._run_all(commands)
                out += [line, *(result or ["ok"]), ""]
                commands = []
                for old in lines:  # skip the recorded output
                    if not old:
                        break
                continue
            if line and not line.startswith("#"):
                commands.append(line)
            out.append(line)
        assert not commands, f"no {SEPARATOR} after {commands}"
        while out and not out[-1]:
            out.pop()
        return "\n".join(out) + "\n"

    def _run_all(self, commands: list[str]) -> list[str]:
        before = 0 if self._cluster is None else len(self._cluster.lines)
        shown: list[str] = []
        for command in commands:
            name, *arguments = command.split()
            if name == "cluster":
                sizes: dict[str, Any] = dict(_numbers(arguments))
                self._cluster = Cluster(reset_loses=True, **sizes)
                before = 0
            else:
                handler: Callable[[list[str]], list[str]] = getattr(
                    self, f"_{name.replace('-', '_')}"
                )
                before_elect = len(self.cluster.lines)
                shown += handler(arguments)
                if name == "elect":
                    del self.cluster.lines[before_elect:]
        return self.cluster.lines[before:] + shown

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "a scenario begins with a 'cluster' line"
        return self._cluster

    # -------------------------------------------------------------- time and processes

    def _expire(self, arguments: list[str]) -> list[str]:
        self.cluster.expire(int(arguments[0]))
        return []

    def _advance(self, arguments: list[str]) -> list[str]:
        self.cluster.advance(int(arguments[0]), int(arguments[1]))
        return []

    def _crash(self, arguments: list[str]) -> list[str]:
        self.cluster.crash(int(arguments[0]))
        return []

    def _start(self, arguments: list[str]) -> list[str]:
        self.cluster.start(int(arguments[0]))
        return []

    def _disk(self, arguments: list[str]) -> list[str]:
        values = _numbers(arguments[1:])
        voted = values.get("voted")
        self.cluster.invariants.tampered(int(arguments[0]))
        self.cluster.nodes[int(arguments[0])].disk.election = ElectionState(
            values["epoch"], values.get("leader"), None if voted is None else ReplicaKey(voted)
        )
        return []

    # -------------------------------------------------------------- network

    def _oldest(self, arguments: list[str]) -> list[Message]:
        source, target = _link(arguments[0])
        count = int(arguments[1]) if len(arguments) > 1 else 1
        found = [m for m in self.cluster.wire if (m.source, m.target) == (source, target)]
        assert len(found) >= count, f"only {len(found)} messages {arguments[0]}"
        return found[:count]

    def _deliver(self, arguments: list[str]) -> list[str]:
        for message in self._oldest(arguments):
            self.cluster.deliver(message)
        return []

    def _duplicate(self, arguments: list[str]) -> list[str]:
        self.cluster.deliver(self._oldest(arguments)[0], again=True)
        return []

    def _drop(self, arguments: list[str]) -> list[str]:
        for message in self._oldest(arguments):
            self.cluster.drop(message)
        return []

    def _refuse(self, arguments: list[str]) -> list[str]:
        self.cluster.refuse(self._oldest(arguments)[0])
        return []

    def _settle(self, arguments: list[str]) -> list[str]:
        among = {ADMIN} | ({int(a) for a in arguments} or set(self.cluster.nodes))
        self.cluster.settle(lambda m: {m.source, m.target} <= among)
        return []

    def _flush(self, arguments: list[str]) -> list[str]:
        self.cluster.flush(int(arguments[0]))
        return []

    def _cut(self, arguments: list[str]) -> list[str]:
        self.cluster.cut.add(_link(arguments[0]))
        return []

    def _isolate(self, arguments: list[str]) -> list[str]:
        self.cluster.isolate(int(arguments[0]))
        return []

    def _heal(self, _: list[str]) -> list[str]:
        self.cluster.cut.clear()
        return []

    # -------------------------------------------------------------- the controller's side

    def _elect(self, arguments: list[str]) -> list[str]:
        self.cluster.elect(int(arguments[0]))
        return []

    def _propose(self, arguments: list[str]) -> list[str]:
        self.cluster.propose(int(arguments[0]), *map(int, arguments[1:]))
        return []

    def _read(self, arguments: list[str]) -> list[str]:
        self.cluster.read(int(arguments[0]))
        return []

    def _resign(self, arguments: list[str]) -> list[str]:
        node_id = int(arguments[0])
        self.cluster.step(node_id, inputs.Resign(self.cluster.nodes[node_id].up.epoch))
        return []

    def _shutdown(self, arguments: list[str]) -> list[str]:
        self.cluster.step(int(arguments[0]), inputs.Shutdown())
        return []

    def _freeze(self, arguments: list[str]) -> list[str]:
        assert self.cluster.freeze(int(arguments[0])), "there is nothing to make a snapshot of"
        return []

    def _clean(self, arguments: list[str]) -> list[str]:
        assert self.cluster.clean(int(arguments[0])), "there is nothing to clean away"
        return []

    def _add(self, arguments: list[str]) -> list[str]:
        self.cluster.add_voter(*map(int, arguments))
        return []

    def _remove(self, arguments: list[str]) -> list[str]:
        leader, gone = map(int, arguments)
        self.cluster.remove_voter(leader, self.cluster.voters_of(leader).voters[gone].key)
        return []

    def _wipe(self, arguments: list[str]) -> list[str]:
        self.cluster.wipe(int(arguments[0]))
        return []

    def _listen(self, arguments: list[str]) -> list[str]:
        node = self.cluster.nodes[int(arguments[0])]
        addresses = tuple(Listener(name, endpoint(node.key.id)) for name in arguments[1:])
        node.config = dataclasses.replace(node.config, listeners=addresses)
        return []

    # -------------------------------------------------------------- foreign requests

    def _pre_vote(self, arguments: list[str]) -> list[str]:
        return self._foreign_vote(arguments, pre_vote=True)

    def _vote(self, arguments: list[str]) -> list[str]:
        return self._foreign_vote(arguments, pre_vote=False)

    def _foreign_vote(self, arguments: list[str], *, pre_vote: bool) -> list[str]:
        source, target = _link(arguments[0])
        values = dict(a.split("=") for a in arguments[1:])
        offset, epoch = map(int, values["log"].split("@"))
        cluster = self.cluster
        request = VoteRequest(
            ReplicaKey(source), int(values["epoch"]), OffsetAndEpoch(offset, epoch), pre_vote
        )
        message = Message(
            cluster.count(), source, target, target, 0, cluster.count(), request, is_request=True
        )
        cluster.wire.append(message)
        cluster.deliver(message)
        (answer,) = (m for m in cluster.wire if m.target == source and not m.is_request)
        cluster.wire.remove(answer)
        return [f"{target}->{source} {cluster.describe(answer)}"]

    # -------------------------------------------------------------- looking

    def _status(self, _: list[str]) -> list[str]:
        lines = []
        for i, node in self.cluster.nodes.items():
            replica = node.replica
            if replica is None:
                lines.append(f"{i}: down")
                continue
            leader = "-" if replica.leader_id is None else replica.leader_id
            mark = "-" if replica.high_watermark is None else replica.high_watermark
            lines.append(
                f"{i}: {replica.role} epoch={replica.epoch} leader={leader} "
                f"end={replica.log_end_offset} hwm={mark}"
            )
        return lines

    def _log(self, _: list[str]) -> list[str]:
        lines = []
        for i, node in self.cluster.nodes.items():
            spans = " ".join(
                f"{b.base_offset}..{b.last_offset}@{b.epoch}" for b in node.disk.batches
            )
            start = f" start={node.disk.start}" if node.disk.start else ""
            lines.append(f"{i}: {spans or 'empty'} flushed={node.disk.flushed}{start}")
        return lines


def _link(text: str) -> tuple[int, int]:
    source, target = text.split("->")
    return int(source), int(target)


def _numbers(arguments: list[str]) -> dict[str, int]:
    return {name: int(value) for name, value in (a.split("=") for a in arguments)}


def scenarios(folder: Path) -> list[Path]:
    """All scenario files, by name."""
    return sorted(folder.glob("*.txt"))
