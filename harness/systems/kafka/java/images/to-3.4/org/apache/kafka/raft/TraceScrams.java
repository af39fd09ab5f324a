package org.apache.kafka.raft;

import java.util.Map;
import java.util.Optional;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;

/** The passwords of images, which have none before 3.5. */
final class TraceScrams {
    private TraceScrams() {
    }

    static Map<String, Object> of(MetadataImage image) {
        return Map.of();
    }

    static Map<String, Optional<Object>> changes(MetadataDelta delta) {
        return Map.of();
    }
}
