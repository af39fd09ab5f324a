package org.apache.kafka.raft;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;

/** Delegation tokens of a controller, which has none before 3.6. */
final class SimTokens implements SimPublisher {
    SimTokens(Map<String, String> settings) {
    }

    boolean areThere() {
        return false;
    }

    QuorumController.Builder configured(QuorumController.Builder builder) {
        return builder;
    }

    static void keepTime(QuorumController controller, Time clock) {
    }

    @Override
    public String name() {
        return "Tokens";
    }

    @Override
    public void published(MetadataDelta delta, MetadataImage image, boolean isWhole) {
        throw new AssertionError("nobody installs it");
    }

    /** Empty: nobody can have asked. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        return Optional.empty();
    }
}
