package org.apache.kafka.raft;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LogDeltaManifest;
import org.apache.kafka.image.loader.SnapshotManifest;
import org.apache.kafka.image.publisher.MetadataPublisher;

/** Hears of images, as the MetadataLoader of this release publishes them: those of snapshots apart. */
interface SimPublisher extends MetadataPublisher {
    /** There is a new image, which comes from a snapshot or not. */
    void published(MetadataDelta delta, MetadataImage image, boolean isWhole);

    @Override
    default void publishSnapshot(MetadataDelta delta, MetadataImage image, SnapshotManifest manifest) {
        published(delta, image, true);
    }

    @Override
    default void publishLogDelta(MetadataDelta delta, MetadataImage image, LogDeltaManifest manifest) {
        published(delta, image, false);
    }

    @Override
    default void close() {
    }
}
