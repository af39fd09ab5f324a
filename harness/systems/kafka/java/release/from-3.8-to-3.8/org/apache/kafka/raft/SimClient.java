package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.Map;
import java.util.OptionalInt;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.raft.internals.BatchMemoryPool;

/** A raft client between two forms, which takes voters from its settings: how it is made. */
final class SimClient {
    private SimClient() {
    }

    static <T> KafkaRaftClient<T> made(SimParts<T> parts) {
        return TraceInside.made(KafkaRaftClient.class,
            OptionalInt.of(parts.node().id),
            parts.directory(),
            parts.machine().serde(),
            parts.channel(),
            parts.queue(),
            parts.log(),
            new BatchMemoryPool(5, KafkaRaftClient.MAX_BATCH_SIZE_BYTES),
            parts.node().clock,
            parts.expirations(),
            SimParts.MAX_FETCH_WAIT_MS,
            parts.identity().get("cluster.id"),
            parts.bootstrap(),
            parts.logContext(),
            parts.random(),
            config(parts.node().settings)
        );
    }

    private static QuorumConfig config(Map<String, String> settings) {
        return new QuorumConfig(
            SimSettings.number(settings, QuorumConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_REQUEST_TIMEOUT_MS),
            SimSettings.number(settings, QuorumConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_RETRY_BACKOFF_MS),
            SimSettings.number(settings, QuorumConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_ELECTION_TIMEOUT_MS),
            SimSettings.number(settings, QuorumConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_ELECTION_BACKOFF_MAX_MS),
            fetchTimeoutMs(settings),
            SimSettings.number(settings, QuorumConfig.QUORUM_LINGER_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_LINGER_MS));
    }

    static int fetchTimeoutMs(Map<String, String> settings) {
        return SimSettings.number(settings, QuorumConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_FETCH_TIMEOUT_MS);
    }

    static void join(
        KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters, QuorumStateStore store, Metrics metrics
    ) {
        client.initialize(voters, store, metrics);
    }
}
