package org.apache.kafka.raft;

import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalInt;

import org.apache.kafka.common.Uuid;

/** What a live raft client has and is asked, which has other forms in other releases. */
final class LiveRaft {
    /** The method of a log that begins a snapshot wherever it may end. */
    static final String ANY_SNAPSHOT = "createNewSnapshotUnchecked";

    private LiveRaft() {
    }

    /** The id of the directory that holds its metadata log. */
    static Uuid directory(KafkaRaftClient<?> client, Path log) {
        return (Uuid) TraceInside.get(TraceInside.field(KafkaRaftClient.class, "nodeDirectoryId"), client);
    }

    static long checkQuorumMs(KafkaRaftClient<?> client) {
        QuorumConfig config = (QuorumConfig) TraceInside.get(TraceInside.field(KafkaRaftClient.class, "quorumConfig"), client);
        return TraceQuorum.timeoutMs(config.fetchTimeoutMs());
    }

    static Optional<ElectionState> stored(QuorumStateStore store) {
        return store.readElectionState();
    }

    /** The node that a request goes to; empty: not known yet. */
    static OptionalInt destination(RaftRequest.Outbound asked) {
        return asked.destination() == null ? OptionalInt.empty() : OptionalInt.of(asked.destination().id());
    }
}
