package org.apache.kafka.raft;

import java.util.Optional;

import org.apache.kafka.common.record.Records;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/** The log as the raft client of this release takes it: other names, and one limit for reads. */
interface SimRaftLog extends ReplicatedLog {
    int MAX_FETCH_BYTES = 8 * 1024 * 1024;

    /** Of the first releases; their raft client never asks. */
    default long lastFlushedOffset() {
        throw new UnsupportedOperationException("nobody asks how far the log is flushed");
    }

    LogFetchInfo read(long offset, Isolation isolation, int maxBytes);

    LogAppendInfo appendAsFollower(Records records, int epoch);

    Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id);

    @Override
    default LogFetchInfo read(long offset, Isolation isolation) {
        return read(offset, isolation, MAX_FETCH_BYTES);
    }

    @Override
    default LogAppendInfo appendAsFollower(Records records) {
        return appendAsFollower(records, Integer.MAX_VALUE);
    }

    /** Its name before 3.8. */
    default Optional<RawSnapshotWriter> storeSnapshot(OffsetAndEpoch id) {
        return createNewSnapshotUnchecked(id);
    }
}
