package org.apache.kafka.raft;

import java.util.Optional;
import java.util.OptionalLong;

import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.message.VoteResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.server.common.OffsetAndEpoch;

/** Tells what a raft client does as protocol events (node/trace.py), of a live node as of a simulated one. */
final class TraceTeller {
    /** What must be known of a node to tell of it. */
    interface Node extends TraceCredits.Leading {
        /** Begin an event of an epoch. */
        TraceEvents event(int epoch, String type);

        /** Its quorum state; null before it is there. */
        QuorumState quorum();

        KafkaRaftClient<?> raft();

        long endOffset();

        int lastEpoch();

        long startOffset();

        long highWatermark();

        Iterable<OffsetAndEpoch> snapshotIds();

        /** The type of the message that is being handled; null: none is. */
        String cause();

        /** Of process.roles. */
        String roles();
    }

    private final Node node;
    private VoterSet voters; // the set last told of
    private OptionalLong votersAt = OptionalLong.empty();
    private RaftRequest.Inbound handled; // the Fetch that is being handled, and is not told of yet
    private TraceCredits credits; // of the last leader that it was; null: it counts nobody
    private EpochState role; // the last that was told of

    TraceTeller(Node node) {
        this.node = node;
    }

    // ------------------------------------------------------------------ start and roles

    void start(Optional<ElectionState> found, long flushed) {
        int epoch = found.map(TraceElection::epoch).orElse(0);
        TraceEvents told = node.event(epoch, "start")
            .put("leo", node.endOffset())
            .put("last_ep", node.lastEpoch())
            .put("log_start", node.startOffset())
            .put("flushed", flushed);
        told.open("qs", '{').comma().raw("\"ep\":").raw(found.isPresent() ? "" + epoch : "null");
        Optional<ReplicaKey> voted = found.flatMap(TraceVoted::key);
        int leader = found.map(TraceElection::leader).orElse(-1);
        told.known("leader", leader)
            .known("voted", voted.map(ReplicaKey::id).orElse(-1))
            .directory("voted_dir", voted.flatMap(ReplicaKey::directoryId))
            .close('}');
        told.open("snaps", '[');
        for (OffsetAndEpoch snapshot : node.snapshotIds()) {
            told.comma().raw("[" + TraceId.offset(snapshot) + "," + TraceId.epoch(snapshot) + "]");
        }
        told.close(']').ids("voters", TraceClient.lastVoters(node.raft()).voterIds()).open("roles", '[');
        for (String role : node.roles().split(",")) {
            told.comma().raw("\"" + role + "\"");
        }
        told.close(']').end();
    }

    void electionState(ElectionState state) {
        Optional<ReplicaKey> voted = TraceVoted.key(state);
        node.event(TraceElection.epoch(state), "qs")
            .known("leader", TraceElection.leader(state))
            .known("voted", voted.map(ReplicaKey::id).orElse(-1))
            .directory("voted_dir", voted.flatMap(ReplicaKey::directoryId))
            .end();
    }

    /** A transition of QuorumState from the state that was told of last. */
    void transition(EpochState state) {
        transition(state, role);
    }

    /** A transition of QuorumState. */
    void transition(EpochState state, EpochState from) {
        role = state;
        ElectionState election = state.election();
        Optional<ReplicaKey> voted = TraceVoted.key(election);
        String cause = node.cause();
        TraceEvents told = node.event(state.epoch(), "role")
            .put("from", from == null ? null : TraceClient.role(from))
            .put("to", TraceClient.role(state))
            .known("leader", TraceElection.leader(election))
            .known("voted", voted.map(ReplicaKey::id).orElse(-1))
            .directory("voted_dir", voted.flatMap(ReplicaKey::directoryId))
            .put("why", cause == null ? "by itself" : cause)
            .put("by", cause);
        if (from instanceof CandidateState candidate) {
            TraceRaft.backoff(candidate).ifPresent(ms -> told.put("backoff_ms", ms));
        }
        told.end();
        if (state instanceof LeaderState<?> leader) {
            credits = TraceQuorum.credits(node, leader);
            node.event(state.epoch(), "elected")
                .ids("grants", leader.grantingVoters())
                .keys("voters", TraceClient.lastVoters(node.raft()).voterKeys())
                .put("es", leader.epochStartOffset())
                .put("quorum_ms", node.checkQuorumMs())
                .end();
        }
    }

    /** No majority has fetched from the leader. */
    void noQuorum() {
        credits.tellNone();
    }

    // ------------------------------------------------------------------ log

    void appended(RecordBatch batch, boolean leads) {
        node.event("append")
            .put("base", batch.baseOffset())
            .put("last", batch.lastOffset())
            .put("bep", batch.partitionLeaderEpoch())
            .put("h", batch.checksum())
            .put("ctl", batch.isControlBatch())
            .put("src", leads ? "leader" : "follower")
            .end();
    }

    void highWatermark(long value) {
        if (node.quorum() == null) {
            return;
        }
        fetch("ok");
        voters();
        Optional<LeaderState<Object>> leader = node.quorum().maybeLeaderState();
        String as = leader.isPresent() ? "leader" : node.quorum().isVoter() ? "follower" : "observer";
        TraceEvents told = node.event("hwm").put("v", value).put("as", as);
        if (leader.isPresent()) {
            told.open("acks", '[');
            for (TraceAck ack : TraceClient.acks(leader.get())) {
                told.comma().raw("[" + ack.key().id() + ",");
                told.raw(ack.key().directoryId().map(id -> "\"" + TraceEvents.hex(id) + "\"").orElse("null"));
                told.raw("," + (ack.end().isPresent() ? ack.end().getAsLong() : "null") + "]");
            }
            told.close(']').keys("voters", TraceClient.lastVoters(node.raft()).voterKeys());
        }
        told.end();
    }

    void snapshot(String op, OffsetAndEpoch snapshot, long size, String sha) {
        node.event("snap").put("op", op)
            .open("id", '[').comma().raw(TraceId.offset(snapshot) + "," + TraceId.epoch(snapshot)).close(']')
            .put("size", size)
            .put("sha", sha)
            .end();
    }

    /** A snapshot is deleted for what there is, or for its age. */
    void cleaned(OffsetAndEpoch snapshot, long held, long ageMs) {
        node.event("snap").put("op", "delete")
            .open("id", '[').comma().raw(TraceId.offset(snapshot) + "," + TraceId.epoch(snapshot)).close(']')
            .put("held", held)
            .put("age_ms", ageMs)
            .end();
    }

    // ------------------------------------------------------------------ requests and answers

    void sent(RaftRequest.Outbound request, int to) {
        if (request.data() instanceof FetchRequestData fetch) {
            FetchRequestData.FetchPartition asked = fetch.topics().get(0).partitions().get(0);
            node.event("fetch_tx").put("off", asked.fetchOffset()).put("last_ep", asked.lastFetchedEpoch()).known("to", to).end();
        } else if (request.data() instanceof VoteRequestData vote) {
            VoteRequestData.PartitionData asked = vote.topics().get(0).partitions().get(0);
            node.event(TraceVotes.epoch(asked), "votereq").put("pre", TraceVotes.isPreVote(asked)).known("to", to).end();
        }
    }

    /** The raft client takes a message up. */
    void taken(RaftMessage message) {
        if (message instanceof RaftRequest.Inbound request && request.data() instanceof FetchRequestData fetch
            && TraceTopic.isMetadata(fetch)) {
            handled = request;
        }
    }

    /** A message was handled. */
    void done() {
        if (handled != null) { // it waits for more
            FetchRequestData fetch = (FetchRequestData) handled.data();
            fetch(TraceFetch.waiting(node.raft(), fetch.topics().get(0).partitions().get(0)));
        }
        voters();
        if (credits != null) {
            credits.tellMajority();
        }
    }

    /** A Fetch that is waiting for more, or was answered just now. */
    private void fetch(String result) {
        if (handled == null) {
            return;
        }
        FetchRequestData fetch = (FetchRequestData) handled.data();
        handled = null;
        FetchRequestData.FetchPartition asked = fetch.topics().get(0).partitions().get(0);
        node.event("fetch_rx")
            .known("from", TraceFetch.replica(fetch))
            .directory("from_dir", TraceClient.directory(asked))
            .put("off", asked.fetchOffset())
            .put("last_ep", asked.lastFetchedEpoch())
            .put("req_ep", asked.currentLeaderEpoch())
            .put("res", result)
            .known("end", result.equals("ok") ? node.endOffset() : -1)
            .end();
    }

    void answered(RaftRequest.Inbound request, ApiMessage answer) {
        if (!TraceTopic.isMetadata(request.data())) {
            return;
        }
        if (request == handled) {
            FetchResponseData fetched = (FetchResponseData) answer;
            if (fetched.errorCode() != 0 || fetched.responses().isEmpty()) {
                fetch(Errors.forCode(fetched.errorCode()).name());
                return;
            }
            FetchResponseData.PartitionData part = fetched.responses().get(0).partitions().get(0);
            boolean diverges = part.divergingEpoch().epoch() >= 0;
            boolean snapshot = part.snapshotId().epoch() >= 0;
            fetch(part.errorCode() != 0 ? Errors.forCode(part.errorCode()).name()
                : diverges ? "diverging" : snapshot ? "snapshot" : "ok");
        } else if (request.data() instanceof VoteRequestData vote) {
            vote(vote, (VoteResponseData) answer);
        } else if (request.data() instanceof FetchRequestData) { // that waited, and counts once more
            if (credits != null) {
                credits.tellMajority();
            }
        } else {
            TraceAsked asked = TraceAsked.of(request.data(), answer);
            if (asked != null) {
                other(request.data(), asked);
            }
        }
    }

    private void other(ApiMessage request, TraceAsked asked) {
        if (asked.error() != 0) {
            node.event("rpc_err").put("api", asked.api()).known("peer", asked.peer())
                .directory("peer_dir", asked.directory()).known("req_ep", asked.epoch()).put("code", asked.error()).end();
            return;
        }
        TraceEvents told = node.event("rpc_ok").put("api", asked.api()).known("peer", asked.peer())
            .directory("peer_dir", asked.directory()).known("req_ep", asked.epoch());
        if (request instanceof EndQuorumEpochRequestData end) {
            succession(told, end.topics().get(0).partitions().get(0));
        }
        told.end();
        if (TraceClient.waitsForCommit(request)) {
            voters();
            ack(asked.api(), votersAt.orElse(-1));
        }
    }

    /** The order in which voters stand after that leader, and how long this one waits for its turn. */
    private void succession(TraceEvents told, EndQuorumEpochRequestData.PartitionData asked) {
        QuorumState quorum = node.quorum();
        if (!quorum.isFollower() || quorum.followerStateOrThrow().leaderId() != asked.leaderId()) {
            return;
        }
        told.keys("preferred", TraceClient.preferred(asked))
            .put("wait_ms", TraceRaft.fetchTimeoutMs(quorum.followerStateOrThrow()))
            .put("backoff_ms", TraceRaft.electionBackoffMaxMs(node.raft()));
    }

    /** A request whose last record has that offset is answered. */
    void ack(String api, long offset) {
        if (offset >= 0) {
            node.event("ack").put("api", api).put("off", offset).put("hwm", node.highWatermark()).end();
        }
    }

    /** The active controller has been given a heartbeat of a broker, so many milliseconds ago. */
    void contact(int broker, long epoch, long ms) {
        node.event("contact").put("broker", broker).put("b_ep", epoch).put("ms", ms).end();
    }

    private void vote(VoteRequestData vote, VoteResponseData answer) {
        VoteRequestData.PartitionData asked = vote.topics().get(0).partitions().get(0);
        int error = answer.errorCode();
        boolean granted = false;
        if (!answer.topics().isEmpty()) {
            VoteResponseData.PartitionData given = answer.topics().get(0).partitions().get(0);
            granted = given.voteGranted();
            error = error == 0 ? given.errorCode() : error;
        }
        node.event("vote")
            .put("pre", TraceVotes.isPreVote(asked))
            .put("ok", granted)
            .put("cand", TraceVotes.candidate(asked))
            .directory("cand_dir", TraceRaft.directory(TraceVotes.directory(asked)))
            .put("cl_ep", asked.lastOffsetEpoch())
            .put("cl_leo", asked.lastOffset())
            .put("my_ep", node.lastEpoch())
            .put("my_leo", node.endOffset())
            .put("req_ep", TraceVotes.epoch(asked))
            .put("err", error)
            .end();
    }

    // ------------------------------------------------------------------ voters

    /** The set in force, if it is another one than was told of: after a start, or a truncation. */
    void voters() {
        if (node.quorum() == null) {
            return;
        }
        VoterSet now = TraceClient.lastVoters(node.raft());
        OptionalLong at = TraceClient.lastVotersOffset(node.raft());
        if (now != voters || !at.equals(votersAt)) {
            voters(now, at);
        }
    }

    /** The raft client reads a set in its log: one Fetch may bring several. */
    void voters(VoterSet read, long offset) {
        if (node.quorum() == null) {
            return;
        }
        boolean isLoading = votersAt.isPresent() && TraceClient.lastVotersOffset(node.raft()).isEmpty();
        if (!isLoading) { // a snapshot: nobody goes by the empty history that it begins with
            voters();
        }
        voters(read, OptionalLong.of(offset));
    }

    private void voters(VoterSet now, OptionalLong at) {
        boolean reverts = voters != null && at.orElse(-1) < votersAt.orElse(-1);
        boolean same = now.equals(voters) && at.equals(votersAt);
        voters = now;
        votersAt = at;
        if (!same) {
            node.event("voters").known("off", at.orElse(-1)).keys("set", now.voterKeys())
                .put("kv", TraceClient.kraftVersion(node.raft())).put("revert", reverts).end();
        }
    }
}
