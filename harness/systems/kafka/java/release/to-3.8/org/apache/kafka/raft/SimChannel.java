package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

/** The network as the raft client of this release takes it: it is told where voters are, as their setting says. */
interface SimChannel extends NetworkChannel {
    /** Send a request; the future is of its answer. */
    void send(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer);

    @Override
    default void send(RaftRequest.Outbound request) {
        send(request, request.completion);
    }

    @Override
    default void updateEndpoint(int id, RaftConfig.InetAddressSpec address) {
    }
}
