package org.apache.kafka.raft;

/** The offset of a place in the log: a method. */
final class TraceOffset {
    private TraceOffset() {
    }

    static long of(LogOffsetMetadata place) {
        return place.offset();
    }
}
