package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ApiMessage;

/** What a request is about: one partition of one topic, if it is one that a quorum serves. */
final class TraceTopic {
    private static final String NAME = "__cluster_metadata";
    private static final Uuid ID = new Uuid(0, 1);

    private TraceTopic() {
    }

    /** Whether it is about the log of the metadata; of anything else there is nothing to tell. */
    static boolean isMetadata(ApiMessage request) {
        if (request instanceof VoteRequestData asked) {
            return isOne(asked.topics()) && isNamed(asked.topics().get(0).topicName())
                && isOne(asked.topics().get(0).partitions())
                && asked.topics().get(0).partitions().get(0).partitionIndex() == 0;
        }
        if (request instanceof BeginQuorumEpochRequestData asked) {
            return isOne(asked.topics()) && isNamed(asked.topics().get(0).topicName())
                && isOne(asked.topics().get(0).partitions())
                && asked.topics().get(0).partitions().get(0).partitionIndex() == 0;
        }
        if (request instanceof EndQuorumEpochRequestData asked) {
            return isOne(asked.topics()) && isNamed(asked.topics().get(0).topicName())
                && isOne(asked.topics().get(0).partitions())
                && asked.topics().get(0).partitions().get(0).partitionIndex() == 0;
        }
        if (request instanceof FetchSnapshotRequestData asked) {
            return isOne(asked.topics()) && isNamed(asked.topics().get(0).name())
                && isOne(asked.topics().get(0).partitions())
                && asked.topics().get(0).partitions().get(0).partition() == 0;
        }
        if (request instanceof FetchRequestData asked) {
            return isOne(asked.topics())
                && (isNamed(asked.topics().get(0).topic()) || ID.equals(asked.topics().get(0).topicId()))
                && isOne(asked.topics().get(0).partitions())
                && asked.topics().get(0).partitions().get(0).partition() == 0;
        }
        return true; // a change of the voters names no topic
    }

    private static boolean isOne(List<?> items) {
        return items != null && items.size() == 1;
    }

    private static boolean isNamed(String name) {
        return NAME.equals(name);
    }
}
