package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.utils.Time;

/** The event queues of one node, in the order in which they were made. */
public final class SimQueues {
    /** One of them. */
    public interface Queue {
        /** Run the next event, if one is due; whether there was one. */
        boolean step();

        /** When the next event is due, in ns; Long.MAX_VALUE: there is none. */
        long dueNs();
    }

    private final List<Queue> queues = new ArrayList<>();
    private Runnable watch = () -> { };
    private Object newest;

    SimQueues() {
    }

    /** Let a queue be one of the node whose turn it is; the clock that it goes by. */
    public static Time add(Queue queue) {
        SimReplica node = SimReplica.current;
        if (node == null) {
            throw new IllegalStateException("an event queue outside of a node's turn");
        }
        node.queues.queues.add(queue);
        return node.clock;
    }

    /** Note that an event was put into a queue. */
    public static void enqueued(Object event) {
        SimReplica.current.queues.newest = event;
    }

    /** The event that was put into a queue last. */
    Object newest() {
        return newest;
    }

    /** Have something called after each event. */
    void watch(Runnable watch) {
        this.watch = watch;
    }

    /** Run all events that are due; whether there was one. */
    boolean drain() {
        boolean ran = false;
        for (int i = 0; i < queues.size(); i++) {
            while (queues.get(i).step()) {
                ran = true;
                watch.run();
            }
        }
        return ran;
    }

    /** How long until the next event is due, in ms. */
    long waitMs(long nowNs) {
        long due = Long.MAX_VALUE;
        for (Queue queue : queues) {
            due = Math.min(due, queue.dueNs());
        }
        return due == Long.MAX_VALUE ? due : Math.max(0, (due - nowNs + 999_999) / 1_000_000);
    }
}
