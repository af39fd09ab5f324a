package org.apache.kafka.raft;

import org.apache.kafka.server.common.OffsetAndEpoch;

/** A metadata log, with what a simulation must know of it beside what a raft client asks. */
interface SimMetadataLog extends SimRaftLog {
    long end();

    long committed();

    /** The end of what counts as durable. */
    long flushed();

    Iterable<OffsetAndEpoch> snapshotIds();

    /** Do what it has put off until now, as a thread of its own would; whether there was anything. */
    default boolean work(long nowMs) {
        return false;
    }

    /** How long until something is due that it has put off, in ms. */
    default long waitMs(long nowMs) {
        return Long.MAX_VALUE;
    }

    /** The process ends in good order. */
    default void stop() {
    }

    /** The process was killed: let go of files, and write nothing. */
    default void kill() {
    }

    /**
     * Where the control batches begin that lie just before an offset, none of them below the floor; of releases
     * that hand all batches over there are none.
     */
    default long controlsBefore(long offset, long floor) {
        return offset;
    }
}
