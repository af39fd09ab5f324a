package org.apache.kafka.raft;

import java.util.ArrayDeque;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.ObjLongConsumer;

/** Messages that have come, each with the future of its answer; never waits. */
final class SimInbox implements RaftMessageQueue {
    private record Entry(RaftMessage message, CompletableFuture<RaftMessage> future) implements QueueEntry { }

    private final ArrayDeque<Entry> entries = new ArrayDeque<>();
    private final ObjLongConsumer<RaftMessage> taken;
    private final Runnable woken;

    /** What is told of each poll: its message, null for none, and for how many ms it may wait; and of wakeups. */
    SimInbox(ObjLongConsumer<RaftMessage> taken, Runnable woken) {
        this.taken = taken;
        this.woken = woken;
    }

    /** Hand a request to a client; its answer. */
    static CompletionStage<RaftResponse.Outbound> handled(KafkaRaftClient<?> client, RaftRequest.Inbound request) {
        return client.handle(request);
    }

    @Override
    public Optional<QueueEntry> poll(long timeoutMs) {
        Entry entry = entries.poll();
        taken.accept(entry == null ? null : entry.message, timeoutMs);
        return Optional.ofNullable(entry);
    }

    @Override
    public CompletionStage<RaftMessage> add(RaftMessage message) {
        Entry entry = new Entry(message, new CompletableFuture<>());
        entries.add(entry);
        return entry.future;
    }

    @Override
    public boolean isEmpty() {
        return entries.isEmpty();
    }

    @Override
    public void wakeup() {
        woken.run();
    }
}
