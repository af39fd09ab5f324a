package org.apache.kafka.raft;

import java.util.Map;
import java.util.Optional;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.DelegationTokenData;

/** The delegation tokens of images. */
final class TraceTokens {
    private TraceTokens() {
    }

    static Map<String, DelegationTokenData> of(MetadataImage image) {
        return image.delegationTokens().tokens();
    }

    static Map<String, Optional<DelegationTokenData>> changes(MetadataDelta delta) {
        return delta.delegationTokenDelta() == null ? Map.of() : delta.delegationTokenDelta().changes();
    }
}
