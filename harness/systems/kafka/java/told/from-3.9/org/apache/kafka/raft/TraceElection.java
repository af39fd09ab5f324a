package org.apache.kafka.raft;

import java.util.Optional;

/** What an ElectionState says. */
final class TraceElection {
    private TraceElection() {
    }

    static int epoch(ElectionState state) {
        return state.epoch();
    }

    static int leader(ElectionState state) {
        return state.leaderIdOrSentinel();
    }

    static Optional<ReplicaKey> voted(ElectionState state) {
        return state.optionalVotedKey();
    }
}
