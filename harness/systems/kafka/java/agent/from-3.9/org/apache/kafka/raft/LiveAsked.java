package org.apache.kafka.raft;

import org.apache.kafka.common.protocol.ApiMessage;

/** Requests to a live raft client. */
final class LiveAsked {
    private LiveAsked() {
    }

    /** The same request with other contents. */
    static RaftRequest.Inbound with(RaftRequest.Inbound asked, ApiMessage data) {
        return new RaftRequest.Inbound(
            asked.listenerName(), asked.correlationId(), asked.apiVersion(), data, asked.createdTimeMs());
    }
}
