package org.apache.kafka.raft;

/** The offset of a place in the log: a field. */
final class TraceOffset {
    private TraceOffset() {
    }

    static long of(LogOffsetMetadata place) {
        return place.offset;
    }
}
