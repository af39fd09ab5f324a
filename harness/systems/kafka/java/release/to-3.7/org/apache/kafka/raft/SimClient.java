package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.raft.internals.BatchMemoryPool;

/** A raft client that knows voters by their ids, from its settings: how it is made. */
final class SimClient {
    private SimClient() {
    }

    static <T> KafkaRaftClient<T> made(SimParts<T> parts) {
        return TraceInside.made(KafkaRaftClient.class,
            parts.machine().serde(),
            parts.channel(),
            parts.queue(),
            parts.log(),
            parts.store(),
            new BatchMemoryPool(5, KafkaRaftClient.MAX_BATCH_SIZE_BYTES),
            parts.node().clock,
            parts.metrics(),
            parts.expirations(),
            SimParts.MAX_FETCH_WAIT_MS,
            parts.identity().get("cluster.id"),
            OptionalInt.of(parts.node().id),
            parts.logContext(),
            parts.random(),
            config(parts)
        );
    }

    private static RaftConfig config(SimParts<?> parts) {
        Map<String, String> settings = parts.node().settings;
        Map<Integer, RaftConfig.AddressSpec> places = new TreeMap<>();
        parts.voters().forEach((id, place) -> places.put(id, new RaftConfig.InetAddressSpec(place)));
        return new RaftConfig(
            places,
            SimSettings.number(settings, RaftConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_REQUEST_TIMEOUT_MS),
            SimSettings.number(settings, RaftConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_RETRY_BACKOFF_MS),
            SimSettings.number(settings, RaftConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_ELECTION_TIMEOUT_MS),
            SimSettings.number(settings, RaftConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_ELECTION_BACKOFF_MAX_MS),
            fetchTimeoutMs(settings),
            SimSettings.number(settings, RaftConfig.QUORUM_LINGER_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_LINGER_MS));
    }

    static int fetchTimeoutMs(Map<String, String> settings) {
        return SimSettings.number(settings, RaftConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_FETCH_TIMEOUT_MS);
    }

    static void join(
        KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters, QuorumStateStore store, Metrics metrics
    ) {
        client.initialize();
    }
}
