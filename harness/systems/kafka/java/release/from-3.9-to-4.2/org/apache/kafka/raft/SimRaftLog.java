package org.apache.kafka.raft;

/** The log as the raft client of this release takes it: reads have one limit, which is the log's. */
interface SimRaftLog extends ReplicatedLog {
    int MAX_FETCH_BYTES = 8 * 1024 * 1024;

    LogFetchInfo read(long offset, Isolation isolation, int maxBytes);

    @Override
    default LogFetchInfo read(long offset, Isolation isolation) {
        return read(offset, isolation, MAX_FETCH_BYTES);
    }
}
