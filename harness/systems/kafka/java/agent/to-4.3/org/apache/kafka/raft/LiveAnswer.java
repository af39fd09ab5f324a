package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

/** The answer to a request of another node, told of before whoever waits for it hears of it. */
public final class LiveAnswer extends CompletableFuture<RaftResponse.Outbound> {
    private final RaftRequest.Inbound request;

    private LiveAnswer(RaftRequest.Inbound request) {
        this.request = request;
    }

    /** The answer that a request waits for. */
    public static CompletableFuture<?> to(Object request) {
        return new LiveAnswer((RaftRequest.Inbound) request);
    }

    @Override
    public boolean complete(RaftResponse.Outbound answer) {
        if (!isDone()) {
            LiveHooks.tell("vote", node -> node.answered(request, answer.data()));
        }
        return super.complete(answer);
    }
}
