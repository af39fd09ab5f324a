package org.apache.kafka.raft;

import java.util.Optional;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.message.BeginQuorumEpochResponseData;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.EndQuorumEpochResponseData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiMessage;

/** What a request was about, and how it was answered. */
record SimAsked(String api, int peer, Optional<Uuid> directory, int epoch, int error) {
    static SimAsked of(ApiMessage request, ApiMessage response) {
        if (request instanceof BeginQuorumEpochRequestData asked) {
            BeginQuorumEpochRequestData.PartitionData part = asked.topics().get(0).partitions().get(0);
            BeginQuorumEpochResponseData answer = (BeginQuorumEpochResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new SimAsked("BeginQuorumEpoch", part.leaderId(), Optional.empty(), part.leaderEpoch(),
                answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof EndQuorumEpochRequestData asked) {
            EndQuorumEpochRequestData.PartitionData part = asked.topics().get(0).partitions().get(0);
            EndQuorumEpochResponseData answer = (EndQuorumEpochResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new SimAsked("EndQuorumEpoch", part.leaderId(), Optional.empty(), part.leaderEpoch(),
                answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof FetchSnapshotRequestData asked) {
            FetchSnapshotRequestData.PartitionSnapshot part = asked.topics().get(0).partitions().get(0);
            FetchSnapshotResponseData answer = (FetchSnapshotResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new SimAsked("FetchSnapshot", asked.replicaId(), SimClient.directory(part),
                part.currentLeaderEpoch(), answer.errorCode() == 0 ? error : answer.errorCode());
        }
        return SimClient.askedOfVoters(request, response);
    }

    static Optional<Uuid> directory(Uuid id) {
        return id.equals(Uuid.ZERO_UUID) ? Optional.empty() : Optional.of(id);
    }
}
