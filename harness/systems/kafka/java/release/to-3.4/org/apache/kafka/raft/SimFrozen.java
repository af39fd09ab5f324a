package org.apache.kafka.raft;

/** What FileRawSnapshotWriter does to a whole snapshot before it gets its name: nothing, not even an fsync. */
final class SimFrozen {
    private SimFrozen() {
    }

    static void beforeRename(SimFiles files, String part) {
    }
}
