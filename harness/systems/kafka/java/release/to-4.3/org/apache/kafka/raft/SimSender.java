package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

/** The network as raft clients of these releases ask it to send: a request has the future of its answer. */
interface SimSender extends NetworkChannel {
    /** Send a request; the future is of its answer. */
    void send(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer);

    @Override
    default void send(RaftRequest.Outbound request) {
        send(request, request.completion);
    }
}
