package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.VoteRequestData;

/** What a Vote request says, which has other names in other releases. */
final class TraceVotes {
    private TraceVotes() {
    }

    static boolean isPreVote(VoteRequestData.PartitionData asked) {
        return false;
    }

    static int epoch(VoteRequestData.PartitionData asked) {
        return asked.candidateEpoch();
    }

    static int candidate(VoteRequestData.PartitionData asked) {
        return asked.candidateId();
    }

    static Uuid directory(VoteRequestData.PartitionData asked) {
        return Uuid.ZERO_UUID;
    }

    /** Put another candidate into a request. */
    static void from(VoteRequestData.PartitionData asked, int candidate, Uuid directory) {
        asked.setCandidateId(candidate);
    }
}
