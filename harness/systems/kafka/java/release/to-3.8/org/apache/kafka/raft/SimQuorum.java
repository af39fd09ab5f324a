package org.apache.kafka.raft;

/** The version of a quorum, which is another one in other releases. */
final class SimQuorum {
    static final short KRAFT_VERSION = 0;

    private SimQuorum() {
    }
}
