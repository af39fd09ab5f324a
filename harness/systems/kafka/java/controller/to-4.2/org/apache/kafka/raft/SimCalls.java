package org.apache.kafka.raft;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;

/** Calls of a controller whose arguments are not the same in all releases. */
final class SimCalls {
    private SimCalls() {
    }

    static CompletableFuture<CreateTopicsResponseData> createTopics(
        QuorumController controller, ControllerRequestContext context, CreateTopicsRequestData asked
    ) {
        return controller.createTopics(context, asked, named(asked));
    }

    /** The topics whose settings may be told: all, as nobody authorizes anything. */
    private static Set<String> named(CreateTopicsRequestData asked) {
        return asked.topics().stream().map(CreateTopicsRequestData.CreatableTopic::name).collect(Collectors.toSet());
    }

    static CompletableFuture<Map<ConfigResource, ApiError>> alterConfigs(
        QuorumController controller,
        ControllerRequestContext context,
        Map<ConfigResource, Map<String, Map.Entry<AlterConfigOp.OpType, String>>> changes,
        boolean validateOnly
    ) {
        return controller.incrementalAlterConfigs(context, changes, validateOnly);
    }

    static CompletableFuture<Map<ConfigResource, ApiError>> replaceConfigs(
        QuorumController controller,
        ControllerRequestContext context,
        Map<ConfigResource, Map<String, String>> settings,
        boolean validateOnly
    ) {
        return controller.legacyAlterConfigs(context, settings, validateOnly);
    }
}
