package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.queue.KafkaEventQueue;

/** The event queues of one node, in the order in which they were made. */
public final class SimQueues {
    private final List<KafkaEventQueue> queues = new ArrayList<>();

    SimQueues() {
    }

    /** Let a queue be one of the node whose turn it is. */
    public static void add(KafkaEventQueue queue) {
        SimReplica node = SimReplica.current;
        if (node == null) {
            throw new IllegalStateException("an event queue outside of a node's turn");
        }
        node.queues.queues.add(queue);
    }

    /** Run all events that are due; whether there was one. */
    boolean drain() {
        boolean ran = false;
        for (int i = 0; i < queues.size(); i++) {
            while (queues.get(i).step()) {
                ran = true;
            }
        }
        return ran;
    }

    /** How long until the next event is due, in ms. */
    long waitMs(long nowNs) {
        long due = Long.MAX_VALUE;
        for (KafkaEventQueue queue : queues) {
            due = Math.min(due, queue.dueNs());
        }
        return due == Long.MAX_VALUE ? due : Math.max(0, (due - nowNs + 999_999) / 1_000_000);
    }
}
