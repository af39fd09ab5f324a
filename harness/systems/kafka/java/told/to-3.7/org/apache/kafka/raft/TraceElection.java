package org.apache.kafka.raft;

/** What an ElectionState says: fields. */
final class TraceElection {
    private TraceElection() {
    }

    static int epoch(ElectionState state) {
        return state.epoch;
    }

    static int leader(ElectionState state) {
        return state.leaderIdOpt.orElse(-1);
    }
}
