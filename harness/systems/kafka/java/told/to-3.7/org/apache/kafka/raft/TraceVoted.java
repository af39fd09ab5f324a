package org.apache.kafka.raft;

import java.util.Optional;
import java.util.Set;

/** Who got a vote, and who the voters are: ids, from the settings. */
final class TraceVoted {
    private TraceVoted() {
    }

    static Optional<ReplicaKey> key(ElectionState state) {
        return state.votedIdOpt.isPresent() ? Optional.of(ReplicaKey.of(state.votedIdOpt.getAsInt())) : Optional.empty();
    }

    @SuppressWarnings("unchecked")
    static Set<Integer> voters(KafkaRaftClient<?> client) {
        return (Set<Integer>) TraceInside.get(client.quorum(), "voters");
    }
}
