package org.apache.kafka.raft;

/** Tells whether a controller has loaded a snapshot, and nothing since. */
final class TraceLoaded {
    private TraceLoaded() {
    }

    /** Never: before 3.4 a controller says what it has. */
    static boolean isJust(RaftClient<?> client, long offset) {
        return false;
    }
}
