package org.apache.kafka.raft;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;

/** Hands no requests about passwords to a controller, which has none before 3.5. */
final class SimScrams {
    private SimScrams() {
    }

    /** Empty: nobody can have asked. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        return Optional.empty();
    }
}
