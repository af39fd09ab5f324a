package org.apache.kafka.raft;

import java.lang.reflect.Constructor;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.raft.internals.BatchMemoryPool;

/** A raft client between two forms: voters come from its settings, but it is asked as newer ones are. */
final class SimClient {
    private static final int MAX_FETCH_WAIT_MS = 500; // of KafkaRaftClient, where it is private in some releases

    private SimClient() {
    }

    /** The settings of a quorum. */
    static final class Config {
        private final Map<String, String> settings;

        Config(Map<String, String> settings) {
            this.settings = settings;
        }

        private int number(String name, int otherwise) {
            String text = settings.get(name);
            return text == null ? otherwise : Integer.parseInt(text);
        }

        int fetchTimeoutMs() {
            return number(QuorumConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_FETCH_TIMEOUT_MS);
        }

        QuorumConfig quorum() {
            return new QuorumConfig(
                number(QuorumConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_REQUEST_TIMEOUT_MS),
                number(QuorumConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_RETRY_BACKOFF_MS),
                number(QuorumConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_ELECTION_TIMEOUT_MS),
                number(QuorumConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_ELECTION_BACKOFF_MAX_MS),
                fetchTimeoutMs(),
                number(QuorumConfig.QUORUM_LINGER_MS_CONFIG, QuorumConfig.DEFAULT_QUORUM_LINGER_MS));
        }
    }

    /** All that a client is made of. */
    record Parts<T>(
        SimReplica node,
        Map<String, String> identity,
        Uuid directory,
        boolean isController,
        List<InetSocketAddress> bootstrap,
        Map<ListenerName, InetSocketAddress> listeners,
        Map<Integer, InetSocketAddress> voters,
        SimMachine<T> machine,
        NetworkChannel channel,
        RaftMessageQueue queue,
        SimMetadataLog log,
        ExpirationService expirations,
        QuorumStateStore store,
        Metrics metrics,
        LogContext logContext,
        Random random,
        Config config
    ) { }

    static <T> KafkaRaftClient<T> made(Parts<T> parts) {
        return made(KafkaRaftClient.class,
            OptionalInt.of(parts.node.id),
            parts.directory,
            parts.machine.serde(),
            parts.channel,
            parts.queue,
            parts.log,
            new BatchMemoryPool(5, KafkaRaftClient.MAX_BATCH_SIZE_BYTES),
            parts.node.clock,
            parts.expirations,
            MAX_FETCH_WAIT_MS,
            parts.identity.get("cluster.id"),
            parts.bootstrap,
            parts.logContext,
            parts.random,
            parts.config.quorum()
        );
    }

    @SuppressWarnings("unchecked")
    private static <T> T made(Class<?> type, Object... arguments) {
        try {
            for (Constructor<?> each : type.getDeclaredConstructors()) {
                if (each.getParameterCount() == arguments.length) {
                    each.setAccessible(true);
                    return (T) each.newInstance(arguments);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        throw new IllegalStateException(type + " has no constructor of " + arguments.length + " arguments");
    }

    static void join(
        KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters, QuorumStateStore store, Metrics metrics
    ) {
        client.initialize(voters, store, metrics);
    }

    static long append(KafkaRaftClient<byte[]> client, int epoch, List<byte[]> values) {
        return client.scheduleAppend(epoch, values);
    }

    static long offset(LogOffsetMetadata metadata) {
        return metadata.offset;
    }

    // ------------------------------------------------------------------ requests

    static RaftRequest.Inbound inbound(int correlation, short version, ApiMessage data, long createdMs) {
        return new RaftRequest.Inbound(correlation, data, createdMs);
    }

    static RaftResponse.Inbound answered(RaftRequest.Outbound request, ApiMessage data) {
        return new RaftResponse.Inbound(request.correlationId(), data, request.destination());
    }

    static Optional<SimPeer> destination(RaftRequest.Outbound request, Map<Integer, InetSocketAddress> voters) {
        return Optional.ofNullable(request.destination()).map(to -> new SimPeer(to.id(), to.host(), to.port()));
    }
}
