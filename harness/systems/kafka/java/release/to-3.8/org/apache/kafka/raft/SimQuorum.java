package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.controller.QuorumFeatures;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.writer.ImageWriterOptions;

/** What nodes can, which has other forms in other releases. */
final class SimQuorum {
    static final short KRAFT_VERSION = 0;

    private SimQuorum() {
    }

    static QuorumFeatures features(int node, List<Integer> controllers) {
        return new QuorumFeatures(node, QuorumFeatures.defaultFeatureMap(false), controllers);
    }

    /** Options of writing an image as it is. */
    static ImageWriterOptions written(MetadataImage image) {
        return new ImageWriterOptions.Builder().setMetadataVersion(image.features().metadataVersion()).build();
    }
}
