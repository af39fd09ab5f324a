package org.apache.kafka.raft;

import java.nio.file.Path;

/** Where a node has its log and its vote: on the simulated disk, or in a folder of this host. */
final class SimStorage {
    private SimStorage() {
    }

    /**
     * Where Kafka's own log is to be; null: the log is on the simulated disk. Its classes are loaded now, when it
     * is no node's turn: what they say is said once in a JVM, and would be the output of some node.
     */
    static Path folder(String named) {
        if (named == null) {
            return null;
        }
        SimRealLogClass.load();
        return Path.of(named);
    }

    static SimMetadataLog log(SimReplica node) {
        return node.folder == null
            ? new SimLog(node.files, node, node.clock, node.settings) : new SimRealLog(node);
    }

    static SimElections elections(SimReplica node) {
        return node.folder == null ? new SimElectionStore(node) : new SimRealElections(node);
    }
}
