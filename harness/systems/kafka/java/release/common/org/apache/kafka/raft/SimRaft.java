package org.apache.kafka.raft;

import java.lang.reflect.Constructor;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.raft.internals.BatchMemoryPool;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;

/** The KafkaRaftClient of this release: how it is made, and what is known of its inside. */
final class SimRaft<T> {
    static final ListenerName LISTENER = new ListenerName("CONTROLLER");
    private static final int MAX_FETCH_WAIT_MS = 500; // of KafkaRaftClient, where it is private in some releases

    private final SimReplica node;
    private final Map<String, String> identity;
    private final Metrics metrics;
    private final QuorumConfig config;
    private final LogContext logContext;
    private KafkaRaftClient<T> client;
    private CompletableFuture<Void> stopping;

    SimRaft(SimReplica node, Map<String, String> identity) {
        this.node = node;
        this.identity = identity;
        this.metrics = new Metrics(node.clock);
        this.logContext = new LogContext("[RaftManager id=" + node.id + "] ");
        Map<String, String> known = new HashMap<>();
        for (String name : QuorumConfig.CONFIG_DEF.names()) {
            if (node.settings.containsKey(name)) {
                known.put(name, node.settings.get(name));
            }
        }
        this.config = new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, known, false));
    }

    void open(
        SimLog log,
        RaftMessageQueue queue,
        NetworkChannel channel,
        ExpirationService expirations,
        QuorumStateStore store,
        SimMachine<T> machine
    ) {
        Map<Integer, InetSocketAddress> voters = voters();
        boolean isController = node.settings.getOrDefault("process.roles", "controller").contains("controller");
        Map<ListenerName, InetSocketAddress> listeners = new HashMap<>();
        if (isController) {
            String[] at = node.settings.get("advertised.listeners").split("://")[1].split(":");
            listeners.put(LISTENER, InetSocketAddress.createUnresolved(at[0], Integer.parseInt(at[1])));
        }
        client = made(KafkaRaftClient.class,
            OptionalInt.of(node.id),
            uuid(identity.get("directory.id")),
            machine.serde(),
            channel,
            queue,
            log,
            new BatchMemoryPool(5, KafkaRaftClient.MAX_BATCH_SIZE_BYTES),
            node.clock,
            expirations,
            MAX_FETCH_WAIT_MS,
            isController,
            identity.get("cluster.id"),
            bootstrap(),
            Endpoints.fromInetSocketAddresses(listeners),
            new SupportedVersionRange((short) 0, SimQuorum.KRAFT_VERSION),
            logContext,
            new Random(Long.parseLong(identity.get("seed"))),
            config
        );
        machine.open(client);
        SimQuorum.join(client, voters, store, metrics);
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

    private Map<Integer, InetSocketAddress> voters() {
        Map<Integer, InetSocketAddress> found = new TreeMap<>();
        for (String each : split(node.settings.get("controller.quorum.voters"))) {
            String[] parts = each.split("[@:]");
            found.put(Integer.parseInt(parts[0]), InetSocketAddress.createUnresolved(parts[1], Integer.parseInt(parts[2])));
        }
        return found;
    }

    private List<InetSocketAddress> bootstrap() {
        List<InetSocketAddress> found = new ArrayList<>();
        for (String each : split(node.settings.get("controller.quorum.bootstrap.servers"))) {
            String[] parts = each.split(":");
            found.add(InetSocketAddress.createUnresolved(parts[0], Integer.parseInt(parts[1])));
        }
        return found;
    }

    private static String[] split(String list) {
        return list == null || list.isEmpty() ? new String[0] : list.split(",");
    }

    // ------------------------------------------------------------------ what it does

    void poll() {
        client.poll();
    }

    void handle(RaftRequest.Inbound request) {
        client.handle(request);
    }

    RaftRequest.Inbound inbound(int correlation, short version, ApiMessage data, long createdMs) {
        return new RaftRequest.Inbound(LISTENER, correlation, version, data, createdMs);
    }

    void shutdown(int timeoutMs) {
        stopping = client.shutdown(timeoutMs);
    }

    boolean hasShutDown() {
        return stopping != null && stopping.isDone();
    }

    List<Integer> controllers() {
        List<Integer> found = new ArrayList<>();
        for (String each : split(identity.get("controllers"))) {
            found.add(Integer.parseInt(each));
        }
        return found;
    }

    void resign(int epoch) {
        client.resign(epoch);
    }

    void close() {
        metrics.close();
    }

    // ------------------------------------------------------------------ what is known of it

    QuorumState quorum() {
        return client == null ? null : client.quorum();
    }

    int epoch() {
        QuorumState quorum = quorum();
        return quorum == null ? 0 : quorum.epoch();
    }

    KRaftControlRecordStateMachine partition() {
        return (KRaftControlRecordStateMachine) TraceInside.get(TraceRaft.PARTITION, client);
    }

    long checkQuorumMs() {
        return (long) (config.fetchTimeoutMs() * LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR);
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }
}
