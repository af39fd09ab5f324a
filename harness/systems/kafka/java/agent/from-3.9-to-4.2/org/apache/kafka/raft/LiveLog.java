package org.apache.kafka.raft;

import java.util.Optional;

import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/** The metadata log of a raft client, which is of a type of another name in other releases. */
final class LiveLog {
    private final ReplicatedLog log;

    LiveLog(KafkaRaftClient<?> client) {
        this.log = (ReplicatedLog) TraceInside.get(TraceInside.field(KafkaRaftClient.class, "log"), client);
    }

    long end() {
        return log.endOffset().offset();
    }

    long start() {
        return log.startOffset();
    }

    int lastEpoch() {
        return log.lastFetchedEpoch();
    }

    Optional<OffsetAndEpoch> earliestSnapshot() {
        return log.earliestSnapshotId();
    }

    Optional<OffsetAndEpoch> latestSnapshot() {
        return log.latestSnapshotId();
    }

    /** Begin a snapshot wherever it may end. */
    Optional<RawSnapshotWriter> anySnapshot(OffsetAndEpoch id) {
        return log.createNewSnapshotUnchecked(id);
    }

    Object itself() {
        return log;
    }
}
