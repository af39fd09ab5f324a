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

/** What a request other than Vote and Fetch was about, and how it was answered. */
record TraceAsked(String api, int peer, Optional<Uuid> directory, int epoch, int error) {
    /** Tell it from request and response; null: nobody tells of such. */
    static TraceAsked of(ApiMessage request, ApiMessage response) {
        if (request instanceof BeginQuorumEpochRequestData asked) {
            BeginQuorumEpochRequestData.PartitionData part = asked.topics().get(0).partitions().get(0);
            BeginQuorumEpochResponseData answer = (BeginQuorumEpochResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new TraceAsked("BeginQuorumEpoch", part.leaderId(), Optional.empty(), part.leaderEpoch(),
                answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof EndQuorumEpochRequestData asked) {
            EndQuorumEpochRequestData.PartitionData part = asked.topics().get(0).partitions().get(0);
            EndQuorumEpochResponseData answer = (EndQuorumEpochResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new TraceAsked("EndQuorumEpoch", part.leaderId(), Optional.empty(), part.leaderEpoch(),
                answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof FetchSnapshotRequestData asked) {
            FetchSnapshotRequestData.PartitionSnapshot part = asked.topics().get(0).partitions().get(0);
            FetchSnapshotResponseData answer = (FetchSnapshotResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new TraceAsked("FetchSnapshot", asked.replicaId(), TraceClient.directory(part),
                part.currentLeaderEpoch(), answer.errorCode() == 0 ? error : answer.errorCode());
        }
        return TraceClient.askedOfVoters(request, response);
    }
}
