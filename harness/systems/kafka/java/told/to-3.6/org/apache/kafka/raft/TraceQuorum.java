package org.apache.kafka.raft;

/** What keeps a leader in its role: nothing does, it counts nobody (KAFKA-15489). */
final class TraceQuorum {
    private static final double FACTOR = 1.5;

    private TraceQuorum() {
    }

    /** How long later releases go without a majority that fetches: by that these are judged, too. */
    static long timeoutMs(long fetchTimeoutMs) {
        return (long) (fetchTimeoutMs * FACTOR);
    }

    /** Null: the leader counts nobody. */
    static TraceCredits credits(TraceCredits.Leading node, LeaderState<?> leader) {
        return null;
    }
}
