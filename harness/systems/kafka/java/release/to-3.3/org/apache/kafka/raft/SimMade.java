package org.apache.kafka.raft;

import java.util.Optional;

import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.SnapshotWriter;

/** How a snapshot of the state machine's is begun: by the last offset in it, and its epoch. */
final class SimMade {
    private SimMade() {
    }

    static <T> Optional<SnapshotWriter<T>> snapshot(KafkaRaftClient<T> client, OffsetAndEpoch id, long timestampMs) {
        return client.createSnapshot(id.offset - 1, id.epoch, timestampMs);
    }
}
