package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalInt;

import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.raft.internals.BatchMemoryPool;

/** A raft client that knows voters by their directories, too (KIP-853): how it is made. */
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
            parts.isController(),
            parts.identity().get("cluster.id"),
            parts.bootstrap(),
            Endpoints.fromInetSocketAddresses(parts.listeners()),
            new SupportedVersionRange((short) 0, SimQuorum.KRAFT_VERSION),
            parts.logContext(),
            parts.random(),
            config(parts.node().settings)
        );
    }

    private static QuorumConfig config(Map<String, String> settings) {
        Map<String, String> known = new HashMap<>();
        for (String name : QuorumConfig.CONFIG_DEF.names()) {
            if (settings.containsKey(name)) {
                known.put(name, settings.get(name));
            }
        }
        return new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, known, false));
    }

    static int fetchTimeoutMs(Map<String, String> settings) {
        return config(settings).fetchTimeoutMs();
    }

    static void join(
        KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters, QuorumStateStore store, Metrics metrics
    ) {
        SimQuorum.join(client, voters, store, metrics);
    }
}
