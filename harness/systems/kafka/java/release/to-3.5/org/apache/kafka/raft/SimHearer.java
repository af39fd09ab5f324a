package org.apache.kafka.raft;

import org.apache.kafka.snapshot.SnapshotReader;

/** A listener, as the raft client of this release calls it: a snapshot that is to be loaded has another name. */
interface SimHearer<T> extends RaftClient.Listener<T> {
    void handleLoadSnapshot(SnapshotReader<T> reader);

    @Override
    default void handleSnapshot(SnapshotReader<T> reader) {
        handleLoadSnapshot(reader);
    }
}
