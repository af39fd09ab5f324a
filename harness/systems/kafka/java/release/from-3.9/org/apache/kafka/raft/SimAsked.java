package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.common.protocol.ApiMessage;

/** What a raft client is asked: to append, and by requests. */
final class SimAsked {
    private SimAsked() {
    }

    static long append(KafkaRaftClient<byte[]> client, int epoch, List<byte[]> values) {
        long offset = client.prepareAppend(epoch, values);
        client.schedulePreparedAppend();
        return offset;
    }

    static RaftRequest.Inbound request(int correlation, short version, ApiMessage data, long createdMs) {
        return new RaftRequest.Inbound(SimRaft.LISTENER, correlation, version, data, createdMs);
    }
}
