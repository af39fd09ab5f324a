package org.apache.kafka.queue;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;

import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.SimQueues;
import org.slf4j.Logger;

/**
 * Stands in for Kafka's class of this name, which has a thread: here events run when the node's turn comes
 * to them ({@link SimQueues}), in the same order. QuorumController, MetadataLoader and SnapshotGenerator do
 * all their work on such queues.
 */
public final class KafkaEventQueue implements EventQueue, SimQueues.Queue {
    /** An event in the queue, or one that waits for its time. */
    private static final class Entry {
        final Event event;
        final String tag;
        final boolean isDeferred;
        Long deadlineNs; // as filed in ``timed``

        Entry(Event event, String tag, boolean isDeferred) {
            this.event = event;
            this.tag = tag;
            this.isDeferred = isDeferred;
        }
    }

    private final Time time;
    private final Logger log;
    private Event cleanup;
    private final ArrayDeque<Entry> ready = new ArrayDeque<>();
    private final TreeMap<Long, Entry> timed = new TreeMap<>();
    private final Map<String, Entry> tagged = new HashMap<>();
    private String ranTag; // of the timed event that ran last, and when
    private long ranNs;
    private boolean isClosing;
    private boolean isOver;

    public KafkaEventQueue(Time time, LogContext logContext, String threadNamePrefix) {
        this(time, logContext, threadNamePrefix, VoidEvent.INSTANCE);
    }

    public KafkaEventQueue(Time time, LogContext logContext, String threadNamePrefix, Event cleanupEvent) {
        this(time, logContext, threadNamePrefix, cleanupEvent, null);
    }

    /** From 4.3 on; how long it was idle is not measured here. */
    public KafkaEventQueue(
        Time time,
        LogContext logContext,
        String threadNamePrefix,
        Event cleanupEvent,
        BiConsumer<Long, Long> idleTimeCallback
    ) {
        this.time = SimQueues.add(this); // MetadataLoader would have its queue go by the host's clock
        this.log = logContext.logger(KafkaEventQueue.class);
        this.cleanup = cleanupEvent;
    }

    public Time time() {
        return time;
    }

    /** From 4.1 on. */
    public void enqueue(
        EventInsertionType type,
        String tag,
        UnaryOperator<OptionalLong> deadlineNsCalculator,
        Event event
    ) {
        enqueue(type, tag, (Function<OptionalLong, OptionalLong>) deadlineNsCalculator, event);
    }

    /** Before. */
    public void enqueue(
        EventInsertionType type,
        String tag,
        Function<OptionalLong, OptionalLong> deadlineNsCalculator,
        Event event
    ) {
        if (isClosing) {
            fail(event, new RejectedExecutionException());
            return;
        }
        SimQueues.enqueued(event);
        Entry entry = new Entry(event, tag, type == EventInsertionType.DEFERRED);
        OptionalLong before = OptionalLong.empty();
        if (tag != null) {
            Entry old = tagged.remove(tag);
            if (old != null) {
                before = old.deadlineNs == null ? OptionalLong.empty() : OptionalLong.of(old.deadlineNs);
                drop(old);
            }
            tagged.put(tag, entry);
        }
        OptionalLong deadline = deadlineNsCalculator.apply(before);
        if (type == EventInsertionType.APPEND) {
            ready.addLast(entry);
        } else if (type == EventInsertionType.PREPEND) {
            ready.addFirst(entry);
        } else if (deadline.isEmpty()) {
            throw new RuntimeException("You must specify a deadline for deferred events.");
        }
        if (deadline.isPresent()) {
            long at = deadline.getAsLong();
            if (tag != null && tag.equals(ranTag) && at <= ranNs && time.nanoseconds() == ranNs) {
                at = ranNs + 1; // it asks for itself again at once: a clock that runs would have gone on
            }
            while (timed.containsKey(at)) {
                at++;
            }
            entry.deadlineNs = at;
            timed.put(at, entry);
        }
    }

    private void drop(Entry entry) {
        if (!entry.isDeferred) {
            ready.remove(entry);
        }
        if (entry.deadlineNs != null) {
            timed.remove(entry.deadlineNs);
        }
        if (entry.tag != null) {
            tagged.remove(entry.tag, entry);
        }
    }

    @Override
    public void cancelDeferred(String tag) {
        Entry entry = tagged.get(tag);
        if (entry != null) {
            drop(entry);
        }
    }

    @Override
    public void beginShutdown(String source) {
        isClosing = true;
    }

    /** Before 3.5; nobody is given time to end. */
    public void beginShutdown(String source, Event cleanupEvent, long timeSpan, TimeUnit timeUnit) {
        if (!isClosing) {
            cleanup = cleanupEvent;
        }
        beginShutdown(source);
    }

    /** From 3.4 on asked for. */
    public int size() {
        return ready.size() + (int) timed.values().stream().filter(entry -> entry.isDeferred).count();
    }

    @Override
    public void close() {
        beginShutdown("KafkaEventQueue#close");
    }

    /** Run the next event that is due; false: there is none. */
    public boolean step() {
        if (isOver) {
            return false;
        }
        Map.Entry<Long, Entry> first = timed.firstEntry();
        if (first != null && (first.getKey() <= time.nanoseconds() || isClosing && first.getValue().isDeferred)) {
            Entry entry = first.getValue();
            drop(entry);
            ranTag = entry.tag;
            ranNs = time.nanoseconds();
            if (isClosing) {
                fail(entry.event, new RejectedExecutionException());
            } else if (entry.isDeferred) {
                run(entry.event);
            } else {
                fail(entry.event, new TimeoutException());
            }
            return true;
        }
        Entry entry = ready.peekFirst();
        if (entry != null) {
            drop(entry);
            run(entry.event);
            return true;
        }
        if (isClosing) {
            isOver = true;
            run(cleanup);
            return true;
        }
        return false;
    }

    /** When the next event is due that waits for its time. */
    public long dueNs() {
        return timed.isEmpty() || isOver ? Long.MAX_VALUE : timed.firstKey();
    }

    private void run(Event event) {
        try {
            event.run();
        } catch (Exception e) {
            fail(event, e);
        }
    }

    private void fail(Event event, Throwable error) {
        try {
            event.handleException(error);
        } catch (Exception e) {
            log.error("Unexpected exception in handleException", e);
        }
    }
}
