package org.apache.kafka.raft;

/** The log as the raft client of this release takes it: it has another name, and reads have a limit of their own. */
interface SimRaftLog extends RaftLog {
}
