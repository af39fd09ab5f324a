package org.apache.kafka.controller;

import java.lang.reflect.Field;

import org.apache.kafka.raft.TraceInside;

/** What a controller has of the log: a part of its own keeps it. */
final class LiveCommitted {
    private static final Field OFFSETS = TraceInside.field(QuorumController.class, "offsetControl");

    private LiveCommitted() {
    }

    /** Where the last batch with data ends, or the snapshot that was loaded since; 0: it has nothing. */
    static long end(Object controller) {
        return of(controller).lastCommittedOffset() + 1;
    }

    /** The offset to which it goes back when it is not the active controller any more. */
    static long stable(Object controller) {
        return of(controller).lastStableOffset();
    }

    private static OffsetControlManager of(Object controller) {
        return (OffsetControlManager) TraceInside.get(OFFSETS, controller);
    }
}
