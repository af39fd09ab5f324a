package org.apache.kafka.raft;

import java.util.Optional;
import java.util.Set;

import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;

/** What an ElectionState says, and who the voters are: a key with a directory may be there, but nobody gives one. */
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
        return state.optionalVotedKey().map(key -> ReplicaKey.of(key.id()));
    }

    static Set<Integer> voters(KafkaRaftClient<?> client) {
        return ((KRaftControlRecordStateMachine) TraceInside.get(client, "partitionState")).lastVoterSet().voterIds();
    }
}
