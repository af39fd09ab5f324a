package org.apache.kafka.raft;

import java.util.Optional;
import java.util.Set;

import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;

/** Who got a vote, and who the voters are: a key with a directory may be there, but nobody gives one. */
final class TraceVoted {
    private TraceVoted() {
    }

    static Optional<ReplicaKey> key(ElectionState state) {
        return state.optionalVotedKey().map(key -> ReplicaKey.of(key.id()));
    }

    static Set<Integer> voters(KafkaRaftClient<?> client) {
        return ((KRaftControlRecordStateMachine) TraceInside.get(client, "partitionState")).lastVoterSet().voterIds();
    }
}
