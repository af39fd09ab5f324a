package org.apache.kafka.raft;

/** The level of kraft.version that a raft client goes by; a cluster keeps the one that it was formatted with. */
final class SimLevel {
    private SimLevel() {
    }

    static int of(KafkaRaftClient<?> client) {
        return TraceClient.kraftVersion(client);
    }
}
