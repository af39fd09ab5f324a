package org.apache.kafka.raft;

/** Tells whether a controller has loaded a snapshot, and nothing since. */
final class TraceLoaded {
    private TraceLoaded() {
    }

    /** Whether the newest snapshot ends at the offset: a controller then says that it has a record more than it has. */
    static boolean isJust(RaftClient<?> client, long offset) {
        return client.latestSnapshotId().filter(id -> TraceId.offset(id) == offset).isPresent();
    }
}
