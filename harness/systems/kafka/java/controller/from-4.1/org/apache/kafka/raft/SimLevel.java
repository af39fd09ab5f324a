package org.apache.kafka.raft;

/** The level of kraft.version that a raft client goes by, with one that it was asked for and has not written yet. */
final class SimLevel {
    private SimLevel() {
    }

    static int of(KafkaRaftClient<?> client) {
        return client.kraftVersion().featureLevel();
    }
}
