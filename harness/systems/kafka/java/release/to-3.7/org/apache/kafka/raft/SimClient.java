package org.apache.kafka.raft;

import java.lang.reflect.Constructor;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import java.util.TreeMap;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.raft.internals.BatchMemoryPool;

/** A raft client that knows voters by their ids, from its settings: how it is made and asked. */
final class SimClient {
    private static final int MAX_FETCH_WAIT_MS = 500;

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
            return number(RaftConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_FETCH_TIMEOUT_MS);
        }

        RaftConfig raft(Map<Integer, InetSocketAddress> voters) {
            Map<Integer, RaftConfig.AddressSpec> places = new TreeMap<>();
            voters.forEach((id, place) -> places.put(id, new RaftConfig.InetAddressSpec(place)));
            return new RaftConfig(
                places,
                number(RaftConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_REQUEST_TIMEOUT_MS),
                number(RaftConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_RETRY_BACKOFF_MS),
                number(RaftConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_ELECTION_TIMEOUT_MS),
                number(RaftConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_ELECTION_BACKOFF_MAX_MS),
                fetchTimeoutMs(),
                number(RaftConfig.QUORUM_LINGER_MS_CONFIG, RaftConfig.DEFAULT_QUORUM_LINGER_MS));
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
            parts.machine.serde(),
            parts.channel,
            parts.queue,
            parts.log,
            parts.store,
            new BatchMemoryPool(5, KafkaRaftClient.MAX_BATCH_SIZE_BYTES),
            parts.node.clock,
            parts.metrics,
            parts.expirations,
            MAX_FETCH_WAIT_MS,
            parts.identity.get("cluster.id"),
            OptionalInt.of(parts.node.id),
            parts.logContext,
            parts.random,
            parts.config.raft(parts.voters)
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
        client.initialize();
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
        return new RaftResponse.Inbound(request.correlationId(), data, request.destinationId());
    }

    static Optional<SimPeer> destination(RaftRequest.Outbound request, Map<Integer, InetSocketAddress> voters) {
        return Optional.ofNullable(voters.get(request.destinationId()))
            .map(to -> new SimPeer(request.destinationId(), to.getHostString(), to.getPort()));
    }
}
