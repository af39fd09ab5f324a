package org.apache.kafka.raft;

import java.util.Optional;

/** Who got a vote. */
final class TraceVoted {
    private TraceVoted() {
    }

    static Optional<ReplicaKey> key(ElectionState state) {
        return state.optionalVotedKey();
    }
}
