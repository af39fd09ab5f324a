package org.apache.kafka.raft;

import java.lang.reflect.Field;

/** What keeps a leader in its role: it counts who has fetched from it (KAFKA-15489). */
final class TraceQuorum {
    private static final Field CREDITS = TraceInside.field(LeaderState.class, "fetchedVoters");

    private TraceQuorum() {
    }

    /** How long a leader goes without a majority that fetches. */
    static long timeoutMs(long fetchTimeoutMs) {
        return (long) (fetchTimeoutMs * LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR);
    }

    /** Have a leader that begins count in a set of ours who keeps it in its role. */
    static TraceCredits credits(TraceCredits.Leading node, LeaderState<?> leader) {
        TraceCredits credits = new TraceCredits(node, leader);
        TraceInside.set(CREDITS, leader, credits);
        return credits;
    }
}
