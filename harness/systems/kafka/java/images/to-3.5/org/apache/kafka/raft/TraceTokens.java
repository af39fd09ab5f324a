package org.apache.kafka.raft;

import java.util.Map;
import java.util.Optional;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;

/** The delegation tokens of images, which have none before 3.6. */
final class TraceTokens {
    private TraceTokens() {
    }

    static Map<String, Object> of(MetadataImage image) {
        return Map.of();
    }

    static Map<String, Optional<Object>> changes(MetadataDelta delta) {
        return Map.of();
    }
}
