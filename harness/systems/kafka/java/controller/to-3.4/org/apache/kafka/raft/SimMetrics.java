package org.apache.kafka.raft;

import com.yammer.metrics.core.MetricsRegistry;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.controller.QuorumControllerMetrics;

/** Gives a controller its metrics, which nobody reads; before 3.5 it makes none itself. */
final class SimMetrics {
    private SimMetrics() {
    }

    static QuorumController.Builder kept(QuorumController.Builder builder, Time clock) {
        return builder.setMetrics(new QuorumControllerMetrics(new MetricsRegistry(), clock));
    }
}
