"""Inputs, messages and effects of the core as one short line each."""

from __future__ import annotations

from node.core import effects as fx
from node.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    ControlRecords,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    QuorumEpochResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)


def describe(thing: fx.Effect | Request | Response) -> str:
    """One line, without who; empty for what only the machine needs."""
    if isinstance(thing, fx.Trace):
        return _trace(thing)
    return _message(thing) or _effect(thing)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _message(thing: object) -> str:
    return _vote(thing) or _fetch(thing) or _change(thing)


def _vote(thing: object) -> str:
    match thing:
        case VoteRequest():
            name = "PreVote" if thing.pre_vote else "Vote"
            return f"{name} epoch={thing.epoch} log={thing.last.offset}@{thing.last.epoch}"
        case VoteResponse():
            verdict = "granted" if thing.granted else "refused"
            return f"{verdict} {_tail(thing)}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch={thing.epoch}"
        case EndQuorumEpochRequest():
            preferred = ",".join(str(k) for k in thing.preferred) or "-"
            return f"EndQuorumEpoch epoch={thing.epoch} preferred={preferred}"
        case QuorumEpochResponse():
            return f"heard {_tail(thing)}"
        case _:
            return ""


def _fetch(thing: object) -> str:
    match thing:
        case FetchRequest():
            return (
                f"Fetch epoch={thing.epoch} from={thing.offset}@{thing.last_fetched_epoch} "
                f"hwm={_number(thing.high_watermark)}"
            )
        case FetchResponse():
            return f"{_fetched(thing)} {_tail(thing)}"
        case FetchSnapshotRequest():
            id_ = thing.snapshot
            return f"FetchSnapshot epoch={thing.epoch} {id_.offset}@{id_.epoch} at={thing.position}"
        case FetchSnapshotResponse():
            got = f" {len(thing.data)} of {thing.size} bytes" if thing.data else ""
            return f"snapshot{got} {_tail(thing)}"
        case DescribeQuorumRequest():
            return "DescribeQuorum"
        case DescribeQuorumResponse():
            return f"quorum hwm={_number(thing.high_watermark)} {_tail(thing)}"
        case _:
            return ""


def _change(thing: object) -> str:
    match thing:
        case AddVoterRequest():
            return f"AddVoter {thing.voter}"
        case RemoveVoterRequest():
            return f"RemoveVoter {thing.voter}"
        case UpdateVoterRequest():
            names = ",".join(x.name for x in thing.listeners)
            return f"UpdateVoter {thing.voter} listeners={names} epoch={thing.epoch}"
        case VoterChangeResponse():
            why = "" if thing.message is None else f" ({thing.message})"
            return f"voters {_tail(thing)}{why}"
        case ProbeVersionsRequest():
            return "ApiVersions"
        case ProbeVersionsResponse():
            versions = thing.kraft_versions
            known = "-" if versions is None else f"{versions.min}..{versions.max}"
            return f"supports kraft.version {known}"
        case _:
            return ""


def _tail(
    response: VoteResponse
    | QuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
    | DescribeQuorumResponse,
) -> str:
    error = "" if response.error is Error.NONE else f" {response.error.name}"
    return f"epoch={response.epoch} leader={_number(response.leader_id)}{error}"


def _fetched(response: FetchResponse) -> str:
    if response.diverging is not None:
        return f"diverging at {response.diverging.offset}@{response.diverging.epoch}"
    if response.snapshot is not None:
        return f"snapshot {response.snapshot.offset}@{response.snapshot.epoch} first"
    spans = ",".join(f"{b.base_offset}..{b.last_offset}@{b.epoch}" for b in response.batches)
    return f"records {spans or 'none'} hwm={_number(response.high_watermark)}"


def _trace(trace: fx.Trace) -> str:
    f = trace.fields
    match trace.type:
        case "role":
            leader = "" if f["leader"] is None else f" leader={f['leader']}"
            return f"{f['from'] or 'start'} -> {f['to']} epoch={trace.epoch}{leader} ({f['why']})"
        case "elected":
            return f"elected by {f['grants']} epoch={trace.epoch} start={f['es']}"
        case "trunc":
            return f"truncate {f['was']} -> {f['to']} ({f['why']})"
        case "hwm":
            return f"high watermark {f['v']}"
        case "voters":
            keys = " ".join(
                str(id_) if dir_ is None else f"{id_}@{dir_[:8]}" for id_, dir_ in f["set"]
            )
            again = " again" if f["revert"] else ""
            return f"voters{again} {{{keys}}} of {f['off']}, kraft.version {f['kv']}"
        case "snap" if f["op"] == "install":
            return f"installed snapshot {f['id'][0]}@{f['id'][1]}"
        case "snap":
            return f"rejected snapshot {f['id'][0]}@{f['id'][1]} ({f['why']})"
        case "lstart":
            return f"log starts at {f['v']}"
        case "flush":
            return f"flushed {f['upto']}"
        case "append" if f["src"] == "follower":
            return f"append {f['base']}..{f['last']}@{f['bep']}"
    return ""


def _effect(effect: object) -> str:
    match effect:
        case fx.PersistElectionState(state):
            voted = "-" if state.voted is None else str(state.voted)
            return f"persist epoch={state.epoch} leader={_number(state.leader_id)} voted={voted}"
        case fx.AppendAsLeader(base, epoch, content):
            if isinstance(content, ControlRecords):
                names = " ".join(type(record).__name__ for record in content.records)
                return f"append {base}..{base + len(content.records) - 1}@{epoch} {names}"
            return f"append {base}..{base + content.count - 1}@{epoch}"
        case fx.OpenSnapshot(id_):
            return f"open snapshot {id_.offset}@{id_.epoch}"
        case fx.DiscardSnapshot(id_):
            return f"discard snapshot {id_.offset}@{id_.epoch}"
        case fx.ProposalAccepted():
            return f"proposal accepted at {effect.base_offset}..{effect.last_offset}"
        case fx.ProposalRejected(leader_id=leader_id):
            return f"proposal rejected leader={_number(leader_id)}"
        case fx.LeadershipLost(epoch):
            return f"leadership of epoch {epoch} lost"
        case fx.BarrierConfirmed(read_offset=offset):
            return f"read confirmed at {offset}"
        case fx.BarrierFailed(leader_id=leader_id):
            return f"read failed leader={_number(leader_id)}"
        case fx.ResetConnections():
            return "reset connections"
        case fx.Fatal(reason):
            return f"FATAL {reason}"
        case _:
            return ""
