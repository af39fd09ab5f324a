package org.apache.kafka.raft;

import java.nio.file.Path;

/** Where a node has its log and its vote: on the simulated disk. */
final class SimStorage {
    private SimStorage() {
    }

    /** Where Kafka's own log is to be: nowhere. */
    static Path folder(String named) {
        if (named != null) {
            throw new IllegalArgumentException("this release has its log on the simulated disk only, not in " + named);
        }
        return null;
    }

    static SimMetadataLog log(SimReplica node) {
        return new SimLog(node.files, node, node.clock, node.settings);
    }

    static SimElections elections(SimReplica node) {
        return new SimElectionStore(node);
    }
}
