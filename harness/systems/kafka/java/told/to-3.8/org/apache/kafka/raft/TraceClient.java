package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.protocol.ApiMessage;

/** What a raft client knows and is asked that knows voters by their ids, from its settings. */
final class TraceClient {
    private static final Field VOTER_STATES = TraceInside.field(LeaderState.class, "voterStates");

    private TraceClient() {
    }

    static VoterSet lastVoters(KafkaRaftClient<?> client) {
        return VoterSet.of(TraceVoted.voters(client));
    }

    static OptionalLong lastVotersOffset(KafkaRaftClient<?> client) {
        return OptionalLong.empty();
    }

    static int kraftVersion(KafkaRaftClient<?> client) {
        return 0;
    }

    static List<TraceAck> acks(LeaderState<?> leader) {
        List<TraceAck> found = new ArrayList<>();
        ((Map<?, ?>) TraceInside.get(VOTER_STATES, leader)).forEach((id, state) -> {
            Optional<?> end = (Optional<?>) TraceInside.get(state, "endOffset");
            found.add(new TraceAck(ReplicaKey.of((Integer) id), end.isPresent()
                ? OptionalLong.of(((LogOffsetMetadata) end.get()).offset) : OptionalLong.empty()));
        });
        return found;
    }

    /** One that has voted has a role of its own here; later it is unattached, and has a vote. */
    static String role(EpochState state) {
        String name = state.name().toLowerCase();
        return name.equals("voted") ? "unattached" : name;
    }

    static Optional<Uuid> directory(FetchRequestData.FetchPartition asked) {
        return Optional.empty();
    }

    static Optional<Uuid> directory(FetchSnapshotRequestData.PartitionSnapshot asked) {
        return Optional.empty();
    }

    /** The voters that a leader which resigns would have as its successors, the best first. */
    static List<ReplicaKey> preferred(EndQuorumEpochRequestData.PartitionData asked) {
        return asked.preferredSuccessors().stream().map(ReplicaKey::of).toList();
    }

    /** There are no changes of the voters. */
    static TraceAsked askedOfVoters(ApiMessage request, ApiMessage response) {
        return null;
    }

    static boolean waitsForCommit(ApiMessage request) {
        return false;
    }
}
