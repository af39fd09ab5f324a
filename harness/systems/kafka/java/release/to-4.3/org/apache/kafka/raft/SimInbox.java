package org.apache.kafka.raft;

import java.util.ArrayDeque;
import java.util.concurrent.CompletionStage;
import java.util.function.ObjLongConsumer;

/** Messages that have come; never waits. */
final class SimInbox implements RaftMessageQueue {
    private final ArrayDeque<RaftMessage> messages = new ArrayDeque<>();
    private final ObjLongConsumer<RaftMessage> taken;
    private final Runnable woken;

    /** What is told of each poll: its message, null for none, and for how many ms it may wait; and of wakeups. */
    SimInbox(ObjLongConsumer<RaftMessage> taken, Runnable woken) {
        this.taken = taken;
        this.woken = woken;
    }

    /** Hand a request to a client; its answer. */
    static CompletionStage<RaftResponse.Outbound> handled(KafkaRaftClient<?> client, RaftRequest.Inbound request) {
        client.handle(request);
        return request.completion;
    }

    @Override
    public RaftMessage poll(long timeoutMs) {
        RaftMessage message = messages.poll();
        taken.accept(message, timeoutMs);
        return message;
    }

    @Override
    public void add(RaftMessage message) {
        messages.add(message);
    }

    @Override
    public boolean isEmpty() {
        return messages.isEmpty();
    }

    @Override
    public void wakeup() {
        woken.run();
    }
}
