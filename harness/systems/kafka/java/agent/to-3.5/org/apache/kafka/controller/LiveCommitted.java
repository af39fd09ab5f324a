package org.apache.kafka.controller;

import java.lang.reflect.Field;

import org.apache.kafka.raft.LiveControls;
import org.apache.kafka.raft.TraceInside;

/** What a controller has of the log: it keeps it itself. */
final class LiveCommitted {
    private static final Field LAST = TraceInside.field(QuorumController.class, "lastCommittedOffset");

    private LiveCommitted() {
    }

    /** Where what it has ends: the last batch with data and the control batches behind it, or a snapshot; 0: nothing. */
    static long end(Object controller) {
        return LiveControls.behind(stable(controller) + 1);
    }

    /** The offset to which it goes back when it is not the active controller any more. */
    static long stable(Object controller) {
        return (Long) TraceInside.get(LAST, controller);
    }
}
