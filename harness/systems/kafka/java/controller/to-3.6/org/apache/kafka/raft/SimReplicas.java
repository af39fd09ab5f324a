package org.apache.kafka.raft;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

/** What controllers know since 3.7; before, they know of no directories, nobody is eligible, and no controller registers. */
final class SimReplicas {
    private static final int[] NOBODY = {};

    private SimReplicas() {
    }

    static List<Uuid> directories(PartitionRegistration partition) {
        return List.of();
    }

    static List<Uuid> directories(BrokerRegistration broker) {
        return List.of();
    }

    static int[] eligible(PartitionRegistration partition) {
        return NOBODY;
    }

    /** Empty: there are no such requests. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        return Optional.empty();
    }
}
