package org.apache.kafka.raft;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.QuorumController;

/** Gives a controller its metrics, which nobody reads; it makes some itself. */
final class SimMetrics {
    private SimMetrics() {
    }

    static QuorumController.Builder kept(QuorumController.Builder builder, Time clock) {
        return builder;
    }
}
