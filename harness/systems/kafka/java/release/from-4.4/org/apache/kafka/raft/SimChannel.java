package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

import org.apache.kafka.common.network.ListenerName;

/** The network as the raft client of these releases takes it: who sends a request gets a future of its answer. */
interface SimChannel extends NetworkChannel {
    /** Send a request; the future is of its answer. */
    void send(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer);

    @Override
    default CompletionStage<RaftResponse.Inbound> send(RaftRequest.Outbound request) {
        CompletableFuture<RaftResponse.Inbound> answer = new CompletableFuture<>();
        send(request, answer);
        return answer;
    }

    @Override
    default void close() {
    }

    @Override
    default ListenerName listenerName() {
        return SimRaft.LISTENER;
    }
}
