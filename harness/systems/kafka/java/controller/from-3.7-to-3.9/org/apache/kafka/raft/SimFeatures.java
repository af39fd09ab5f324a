package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.controller.QuorumFeatures;

/** The features that controllers have, which are told in another form in other releases. */
final class SimFeatures {
    private SimFeatures() {
    }

    static QuorumFeatures known(int node, List<Integer> controllers) {
        return new QuorumFeatures(node, QuorumFeatures.defaultFeatureMap(false), controllers);
    }
}
