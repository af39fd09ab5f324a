"""Holds what a node says of its disk against what a loss of power in that instant would leave.

Only a simulated host tells of that (``durable``, ``left``); without its word nothing is judged.
Source: KIP-595 on what must be durable before a Fetch and before a vote; fsync(2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import Batch, Replica, World, persisted, same_directory
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

QUORUM_STATE = "quorum-state"


class DurableClaims(Invariant):
    """S35: what a node says is on its disk would still be there if the power failed just then.

    Judged of the log (``flush``, a voter's ``fetch_tx`` of what it has said to be flushed), of
    ``quorum-state`` and of snapshots.
    """

    name: ClassVar[str] = "S35"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="durable claims",
        promise=(
            "A node says that records, a vote or a snapshot are on its disk only when a loss of "
            "power at that very moment would leave them there, and nothing that it has cut."
        ),
        why=(
            "Nothing looks wrong until the power fails. Then records that a majority confirmed are "
            "gone, and acknowledged topics and ACLs with them."
        ),
        source=(
            "KIP-595 (Fetch; quorum-state); Pillai et al., All File Systems Are Not Created Equal, "
            "OSDI 2014"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("durable", "flush", "fetch_tx", "qs", "snap")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare a claim with the disk, or what has become durable with what was written."""
        replica = world.here
        if not replica.known:
            return ()
        kind = event["t"]
        if kind == "durable":
            return self._written(event, replica)
        if kind == "qs":
            return self._election(event, replica)
        if kind == "snap":
            return self._snapshot(event, replica)
        if kind == "flush":
            return self._log(event, replica, event["upto"], "said that its log is on disk")
        if event["node"] in replica.sets.nodes and event["off"] <= replica.log.flushed:
            return self._log(event, replica, event["off"], "fetched, as if its log were on disk")
        return ()

    def _log(self, event: Event, replica: Replica, upto: int, claim: str) -> Iterable[Anomaly]:
        durable = replica.durable
        if durable is None:
            return ()
        self.checked += 1
        if durable.upto < upto:
            return [
                self._anomaly(
                    f"{replica.id} {claim} below {upto} ({label(event)}): a loss of power would"
                    f" leave it up to {durable.upto}",
                    event,
                    offset=durable.upto,
                )
            ]
        if durable.back and event["t"] == "fetch_tx":
            return [
                self._anomaly(
                    f"{replica.id} fetched at {upto} ({label(event)}), and a loss of power could"
                    f" bring back {durable.back[0]}, which it had cut",
                    event,
                    offset=durable.back[0].base,
                )
            ]
        return ()

    def _written(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """Compare what has become durable with what the node told that it appended."""
        log = replica.log
        if replica.durable is None:
            return  # S25 judges what a start finds
        for batch in (Batch(*each) for each in event["batches"]):
            own = log.at(batch.base)
            self.checked += 1
            if own != batch and log.knows(batch.base):
                has = "nothing" if own is None else str(own)
                yield self._anomaly(
                    f"the disk of {replica.id} holds {batch} ({label(event)}), where its trace"
                    f" tells of {has}",
                    event,
                    offset=batch.base,
                )
                return

    def _election(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        left = replica.files.get(QUORUM_STATE)
        if left is None:
            if replica.durable is not None:
                self.checked += 1
                yield self._anomaly(
                    f"{replica.id} said that its vote is on disk ({label(event)}), and there is no"
                    f" {QUORUM_STATE}",
                    event,
                )
            return
        self.checked += 1
        wrong = [state for state in left.may if not same_election(state, event)]
        if wrong or left.torn:
            yield self._anomaly(
                f"{replica.id} said that {persisted(event['ep'], event)} is on disk"
                f" ({label(event)}): a loss of power could leave {told_of(wrong[0])}"
                if wrong
                else f"{replica.id} had half of its {QUORUM_STATE} on disk ({label(event)})",
                event,
                epoch=event["ep"],
            )

    def _snapshot(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        if event["op"] not in ("freeze", "install") or replica.durable is None:
            return
        self.checked += 1
        end, epoch = event["id"]
        left = replica.files.get(f"{end:020d}-{epoch:010d}.checkpoint")
        wanted = event.get("size"), event.get("sha")
        sure = left is not None and not left.torn and len(left.may) == 1
        found = left.may[0] if left is not None and left.may else None
        if not sure or found is None or (found.get("size"), found.get("sha")) != wanted:
            yield self._anomaly(
                f"{replica.id} said that its snapshot at {end} is on disk ({label(event)}): a loss"
                " of power could leave no such snapshot, or another one",
                event,
                offset=end,
            )


def same_election(state: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> bool:
    """Tell whether a content of ``quorum-state`` is what a ``qs`` event tells."""
    if state is None or "bad" in state:
        return False
    return (
        state.get("ep") == fields.get("ep")
        and state.get("leader") == fields.get("leader")
        and state.get("voted") == fields.get("voted")
        and same_directory(state.get("voted_dir"), fields.get("voted_dir"))
    )


def told_of(state: Mapping[str, Any] | None) -> str:
    """Tell in words what a file of an election state may hold."""
    if state is None:
        return "no such file"
    if "bad" in state:
        return f"what cannot be read ({state['bad']})"
    return str(persisted(state.get("ep"), state))
