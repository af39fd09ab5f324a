package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.controller.QuorumFeatures;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.server.common.KRaftVersion;

/** How nodes join a quorum, and what they can, which has other forms in other releases. */
final class SimQuorum {
    static final short KRAFT_VERSION = KRaftVersion.KRAFT_VERSION_1.featureLevel();

    private SimQuorum() {
    }

    static void join(
        KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters, QuorumStateStore store, Metrics metrics
    ) {
        client.initialize(voters, store, metrics);
    }

    static QuorumFeatures features(int node, List<Integer> controllers) {
        return new QuorumFeatures(node, QuorumFeatures.defaultFeatureMap(false), controllers);
    }

    /** Options of writing an image as it is. */
    static ImageWriterOptions written(MetadataImage image) {
        return new ImageWriterOptions.Builder().setMetadataVersion(image.features().metadataVersion()).build();
    }
}
