package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.common.Node;
import org.apache.kafka.controller.QuorumFeatures;

/** The features that controllers have; here they learn those of others from connections, and simulated ones have none. */
final class SimFeatures {
    private SimFeatures() {
    }

    static QuorumFeatures known(int node, List<Integer> controllers) {
        List<Node> nodes = controllers.stream().map(id -> new Node(id, "", -1)).toList();
        return QuorumFeatures.create(node, new ApiVersions(), QuorumFeatures.defaultFeatureMap(), nodes);
    }
}
