package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.common.protocol.ApiMessage;

/** What a raft client is asked: to append, and by requests. */
final class SimAsked {
    private SimAsked() {
    }

    static long append(KafkaRaftClient<byte[]> client, int epoch, List<byte[]> values) {
        return client.scheduleAppend(epoch, values);
    }

    static RaftRequest.Inbound request(int correlation, short version, ApiMessage data, long createdMs) {
        return new RaftRequest.Inbound(correlation, data, createdMs);
    }
}
