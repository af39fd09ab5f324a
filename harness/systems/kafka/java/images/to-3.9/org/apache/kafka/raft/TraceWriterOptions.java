package org.apache.kafka.raft;

import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.writer.ImageWriterOptions;

/** Says how to write an image as it is; other releases ask for that in another form. */
final class TraceWriterOptions {
    private TraceWriterOptions() {
    }

    static ImageWriterOptions of(MetadataImage image) {
        return new ImageWriterOptions.Builder().setMetadataVersion(image.features().metadataVersion()).build();
    }
}
