package org.apache.kafka.raft;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsResponseData;
import org.apache.kafka.common.message.ControllerRegistrationRequestData;
import org.apache.kafka.common.message.ControllerRegistrationResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;

/** Serves what brokers and controllers ask for since 3.7: the directories of replicas, and controllers. */
final class SimReplicas {
    private SimReplicas() {
    }

    /** The answer to come; empty: the request is about something else. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        CompletableFuture<ApiMessage> answer = null;
        if (request instanceof ControllerRegistrationRequestData asked) {
            answer = caller.done(key, () -> controller.registerController(context, asked)).handle((reply, e) ->
                new ControllerRegistrationResponseData().setErrorCode(SimController.code(e))
                    .setErrorMessage(e == null ? null : SimController.message(e)));
        } else if (request instanceof AssignReplicasToDirsRequestData asked) {
            answer = caller.done(key, () -> controller.assignReplicasToDirs(context, asked)).handle((reply, e) ->
                e == null ? reply : new AssignReplicasToDirsResponseData().setErrorCode(SimController.code(e)));
        }
        return Optional.ofNullable(answer);
    }
}
