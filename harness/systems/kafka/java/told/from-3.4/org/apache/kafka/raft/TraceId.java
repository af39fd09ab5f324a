package org.apache.kafka.raft;

import org.apache.kafka.server.common.OffsetAndEpoch;

/** The parts of an OffsetAndEpoch, which names a snapshot, or the end of a log. */
final class TraceId {
    private TraceId() {
    }

    static long offset(OffsetAndEpoch id) {
        return id.offset();
    }

    static int epoch(OffsetAndEpoch id) {
        return id.epoch();
    }
}
