package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.network.ListenerName;

/** The network as the raft client of these releases takes it: a request says where it goes, and has its answer. */
interface SimChannel extends NetworkChannel {
    /** Send a request; the future is of its answer. */
    void send(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer);

    @Override
    default void send(RaftRequest.Outbound request) {
        send(request, request.completion);
    }

    @Override
    default ListenerName listenerName() {
        return SimRaft.LISTENER;
    }
}
