package org.apache.kafka.raft;

import java.util.Optional;
import java.util.Set;

/** What an ElectionState says, and who the voters are: fields, and ids from the settings. */
final class TraceElection {
    private TraceElection() {
    }

    static int epoch(ElectionState state) {
        return state.epoch;
    }

    static int leader(ElectionState state) {
        return state.leaderIdOpt.orElse(-1);
    }

    static Optional<ReplicaKey> voted(ElectionState state) {
        return state.votedIdOpt.isPresent() ? Optional.of(ReplicaKey.of(state.votedIdOpt.getAsInt())) : Optional.empty();
    }

    @SuppressWarnings("unchecked")
    static Set<Integer> voters(KafkaRaftClient<?> client) {
        return (Set<Integer>) TraceInside.get(client.quorum(), "voters");
    }
}
