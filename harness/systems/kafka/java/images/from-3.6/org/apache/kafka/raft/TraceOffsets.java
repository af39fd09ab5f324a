package org.apache.kafka.raft;

import org.apache.kafka.controller.QuorumController;

/** The offsets that a controller goes by. */
final class TraceOffsets {
    private final Object offsets;

    TraceOffsets(QuorumController controller) {
        offsets = TraceInside.get(controller, "offsetControl");
    }

    /** The end of the records that an active controller goes by: those, too, that are not committed. */
    long end() {
        return number("nextWriteOffset");
    }

    /** The end of the records that a read goes by: those that are committed, whatever else is in memory. */
    long stable() {
        return number("lastStableOffset") + 1;
    }

    /** The last offset that memory has the records of, if all of them are committed; else -1. */
    long settled(boolean isActive) {
        long committed = number("lastCommittedOffset");
        boolean isOpen = number("transactionStartOffset") != -1;
        boolean isAhead = isActive && end() != committed + 1;
        return isOpen || isAhead ? -1 : committed;
    }

    private long number(String name) {
        return (Long) TraceInside.get(offsets, name);
    }
}
