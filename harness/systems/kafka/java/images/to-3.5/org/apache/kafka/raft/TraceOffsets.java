package org.apache.kafka.raft;

import java.lang.reflect.Field;

import org.apache.kafka.controller.QuorumController;

/** The offsets that a controller goes by; before 3.6 it keeps them itself, and has no transactions. */
final class TraceOffsets {
    private static final Field WRITTEN = TraceInside.field(QuorumController.class, "writeOffset");
    private static final Field COMMITTED = TraceInside.field(QuorumController.class, "lastCommittedOffset");

    private final QuorumController controller;

    TraceOffsets(QuorumController controller) {
        this.controller = controller;
    }

    /** The end of the records that an active controller goes by: those, too, that are not committed. */
    long end() {
        return controller.isActive() ? number(WRITTEN) + 1 : -1;
    }

    /** The end of the records that a read goes by: those that are committed, whatever else is in memory. */
    long stable() {
        return number(COMMITTED) + 1;
    }

    /** The last offset that memory has the records of, if all of them are committed; else -1. */
    long settled(boolean isActive) {
        long committed = number(COMMITTED);
        return isActive && end() != committed + 1 ? -1 : committed;
    }

    private long number(Field field) {
        return (Long) TraceInside.get(field, controller);
    }
}
