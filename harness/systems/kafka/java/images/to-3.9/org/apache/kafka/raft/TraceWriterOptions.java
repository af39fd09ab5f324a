package org.apache.kafka.raft;

import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.writer.ImageWriterOptions;

/** How an image is written as it is, which other releases ask for in another form. */
final class TraceWriterOptions {
    private TraceWriterOptions() {
    }

    static ImageWriterOptions of(MetadataImage image) {
        return new ImageWriterOptions.Builder().setMetadataVersion(image.features().metadataVersion()).build();
    }
}
