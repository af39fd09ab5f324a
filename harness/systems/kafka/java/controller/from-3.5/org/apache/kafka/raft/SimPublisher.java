package org.apache.kafka.raft;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.loader.LoaderManifestType;
import org.apache.kafka.image.publisher.MetadataPublisher;

/** Hears of images, as the MetadataLoader of this release publishes them. */
interface SimPublisher extends MetadataPublisher {
    /** There is a new image, which comes from a snapshot or not. */
    void published(MetadataDelta delta, MetadataImage image, boolean isWhole);

    @Override
    default void onMetadataUpdate(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
        published(delta, image, manifest.type() == LoaderManifestType.SNAPSHOT);
    }
}
