package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.controller.QuorumFeatures;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.writer.ImageWriterOptions;

/** The features that controllers have, which are told in another form in other releases. */
final class SimFeatures {
    private SimFeatures() {
    }

    static QuorumFeatures known(int node, List<Integer> controllers) {
        return new QuorumFeatures(node, QuorumFeatures.defaultFeatureMap(false), controllers);
    }

    /** Options of writing an image as it is. */
    static ImageWriterOptions written(MetadataImage image) {
        return new ImageWriterOptions.Builder().setMetadataVersion(image.features().metadataVersion()).build();
    }
}
