package org.apache.kafka.raft;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsResponseData;
import org.apache.kafka.common.message.ControllerRegistrationRequestData;
import org.apache.kafka.common.message.ControllerRegistrationResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

/** What controllers know since 3.7: the directories of replicas, who is eligible, and other controllers. */
final class SimReplicas {
    private SimReplicas() {
    }

    /** The directories in which a partition's replicas are, as far as somebody has told. */
    static List<Uuid> directories(PartitionRegistration partition) {
        return Arrays.stream(partition.directories).filter(each -> !DirectoryId.reserved(each)).toList();
    }

    static List<Uuid> directories(BrokerRegistration broker) {
        return broker.directories();
    }

    static int[] eligible(PartitionRegistration partition) {
        return partition.elr;
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
