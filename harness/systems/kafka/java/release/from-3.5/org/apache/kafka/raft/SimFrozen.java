package org.apache.kafka.raft;

/** What FileRawSnapshotWriter does to a whole snapshot before it gets its name: it fsyncs it. */
final class SimFrozen {
    private SimFrozen() {
    }

    static void beforeRename(SimFiles files, String part) {
        files.ofFile(told -> files.disk().fsync(told, part));
    }
}
