package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/** The network as raft clients of these releases ask it to send: who sends a request gets the future of its answer. */
interface SimSender extends NetworkChannel {
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
}
