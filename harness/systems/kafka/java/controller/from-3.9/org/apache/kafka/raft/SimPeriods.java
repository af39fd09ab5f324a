package org.apache.kafka.raft;

import org.apache.kafka.controller.QuorumController;

/** Has controllers look for partitions that need an unclean election, in the period that is set. */
final class SimPeriods {
    private SimPeriods() {
    }

    static QuorumController.Builder unclean(QuorumController.Builder builder, long ms) {
        return builder.setUncleanLeaderElectionCheckIntervalMs(ms);
    }
}
