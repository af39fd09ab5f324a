package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.AddRaftVoterResponseData;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.RemoveRaftVoterRequestData;
import org.apache.kafka.common.message.RemoveRaftVoterResponseData;
import org.apache.kafka.common.message.UpdateRaftVoterRequestData;
import org.apache.kafka.common.message.UpdateRaftVoterResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;

/** What a raft client knows and is asked that knows voters by their directories, too (KIP-853). */
final class TraceClient {
    private static final Field VOTER_STATES = TraceInside.field(LeaderState.class, "voterStates");
    private static final Field PARTITION = TraceInside.field(KafkaRaftClient.class, "partitionState");

    private TraceClient() {
    }

    private static KRaftControlRecordStateMachine partition(KafkaRaftClient<?> client) {
        return (KRaftControlRecordStateMachine) TraceInside.get(PARTITION, client);
    }

    static VoterSet lastVoters(KafkaRaftClient<?> client) {
        return partition(client).lastVoterSet();
    }

    static OptionalLong lastVotersOffset(KafkaRaftClient<?> client) {
        return partition(client).lastVoterSetOffset();
    }

    static int kraftVersion(KafkaRaftClient<?> client) {
        return partition(client).lastKraftVersion().featureLevel();
    }

    @SuppressWarnings("unchecked")
    static List<TraceAck> acks(LeaderState<?> leader) {
        List<TraceAck> found = new ArrayList<>();
        for (LeaderState.ReplicaState each
            : ((Map<Integer, LeaderState.ReplicaState>) TraceInside.get(VOTER_STATES, leader)).values()) {
            Optional<LogOffsetMetadata> end = each.endOffset();
            found.add(new TraceAck(each.replicaKey(), end.isPresent() ? OptionalLong.of(end.get().offset()) : OptionalLong.empty()));
        }
        return found;
    }

    static String role(EpochState state) {
        return state.name().toLowerCase();
    }

    static Optional<Uuid> directory(FetchRequestData.FetchPartition asked) {
        return TraceRaft.directory(asked.replicaDirectoryId());
    }

    static Optional<Uuid> directory(FetchSnapshotRequestData.PartitionSnapshot asked) {
        return TraceRaft.directory(asked.replicaDirectoryId());
    }

    /** The voters that a leader which resigns would have as its successors, the best first. */
    static List<ReplicaKey> preferred(EndQuorumEpochRequestData.PartitionData asked) {
        List<ReplicaKey> found = new ArrayList<>();
        asked.preferredCandidates().forEach(each ->
            found.add(ReplicaKey.of(each.candidateId(), each.candidateDirectoryId())));
        if (found.isEmpty()) { // of a leader that asks as releases up to 3.8 do
            asked.preferredSuccessors().forEach(id -> found.add(ReplicaKey.of(id, Uuid.ZERO_UUID)));
        }
        return found;
    }

    /** A change of the voters, or null. */
    static TraceAsked askedOfVoters(ApiMessage request, ApiMessage response) {
        if (request instanceof AddRaftVoterRequestData asked) {
            return new TraceAsked("AddVoter", asked.voterId(), TraceRaft.directory(asked.voterDirectoryId()), -1,
                ((AddRaftVoterResponseData) response).errorCode());
        }
        if (request instanceof RemoveRaftVoterRequestData asked) {
            return new TraceAsked("RemoveVoter", asked.voterId(), TraceRaft.directory(asked.voterDirectoryId()), -1,
                ((RemoveRaftVoterResponseData) response).errorCode());
        }
        if (request instanceof UpdateRaftVoterRequestData asked) {
            return new TraceAsked("UpdateVoter", asked.voterId(), TraceRaft.directory(asked.voterDirectoryId()),
                asked.currentLeaderEpoch(), ((UpdateRaftVoterResponseData) response).errorCode());
        }
        return null;
    }

    /** Whether a change of the voters is answered when it is committed. */
    static boolean waitsForCommit(ApiMessage request) {
        return request instanceof AddRaftVoterRequestData || request instanceof RemoveRaftVoterRequestData;
    }
}
