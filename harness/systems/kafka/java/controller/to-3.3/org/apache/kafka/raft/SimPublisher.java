package org.apache.kafka.raft;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;

/** Hears of images; before 3.4 a node has one publisher, {@link SimLoader}, which hands them on. */
interface SimPublisher {
    String name();

    /** There is a new image, which comes from a snapshot or not. */
    void published(MetadataDelta delta, MetadataImage image, boolean isWhole);
}
