package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

/** The answer to a request of another node, told of before whoever waits for it hears of it. */
public final class LiveAnswer extends CompletableFuture<RaftMessage> {
    private final RaftRequest.Inbound request;
    private final CompletableFuture<RaftMessage> heard;

    private LiveAnswer(RaftRequest.Inbound request, CompletableFuture<RaftMessage> heard) {
        this.request = request;
        this.heard = heard;
    }

    /** The future that a message is to complete: in the place of its own, if it is a request. */
    @SuppressWarnings("unchecked")
    public static CompletableFuture<?> to(Object message, CompletableFuture<?> heard) {
        return message instanceof RaftRequest.Inbound request
            ? new LiveAnswer(request, (CompletableFuture<RaftMessage>) heard)
            : heard;
    }

    @Override
    public boolean complete(RaftMessage answer) {
        if (!isDone()) {
            LiveHooks.tell("vote", node -> node.answered(request, answer.data()));
        }
        super.complete(answer);
        return heard.complete(answer);
    }

    @Override
    public boolean completeExceptionally(Throwable error) {
        super.completeExceptionally(error);
        return heard.completeExceptionally(error);
    }
}
