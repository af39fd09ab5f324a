package org.apache.kafka.raft;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;

/** Serves nothing: before 3.7 nobody asks for directories of replicas, and no controller registers. */
final class SimReplicas {
    private SimReplicas() {
    }

    /** Empty: there are no such requests. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        return Optional.empty();
    }
}
