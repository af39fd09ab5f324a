package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.LogContext;

/** The KafkaRaftClient of this release: how it is made, and what is known of its inside. */
final class SimRaft<T> {
    static final ListenerName LISTENER = new ListenerName("CONTROLLER");

    private final SimReplica node;
    private final Map<String, String> identity;
    private final Metrics metrics;
    private final int fetchTimeoutMs;
    private final LogContext logContext;
    private final Map<Integer, InetSocketAddress> voters;
    private KafkaRaftClient<T> client;
    private CompletableFuture<Void> stopping;

    SimRaft(SimReplica node, Map<String, String> identity) {
        this.node = node;
        this.identity = identity;
        this.metrics = new Metrics(node.clock);
        this.logContext = new LogContext("[RaftManager id=" + node.id + "] ");
        this.fetchTimeoutMs = SimClient.fetchTimeoutMs(node.settings);
        this.voters = voters(node.settings);
    }

    void open(
        SimMetadataLog log,
        RaftMessageQueue queue,
        NetworkChannel channel,
        ExpirationService expirations,
        QuorumStateStore store,
        SimMachine<T> machine
    ) {
        boolean isController = node.settings.getOrDefault("process.roles", "controller").contains("controller");
        Map<ListenerName, InetSocketAddress> listeners = new HashMap<>();
        if (isController) {
            String[] at = node.settings.get("advertised.listeners").split("://")[1].split(":");
            listeners.put(LISTENER, InetSocketAddress.createUnresolved(at[0], Integer.parseInt(at[1])));
        }
        Random random = new Random(Long.parseLong(identity.get("seed")));
        client = SimClient.made(new SimParts<>(
            node, identity, uuid(identity.get("directory.id")), isController, bootstrap(), listeners, voters,
            machine, channel, queue, log, expirations, store, metrics, logContext, random));
        machine.open(client);
        SimClient.join(client, voters, store, metrics);
    }

    private static Map<Integer, InetSocketAddress> voters(Map<String, String> settings) {
        Map<Integer, InetSocketAddress> found = new TreeMap<>();
        for (String each : split(settings.get("controller.quorum.voters"))) {
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

    CompletionStage<RaftResponse.Outbound> handle(RaftRequest.Inbound request) {
        return SimInbox.handled(client, request);
    }

    RaftRequest.Inbound inbound(int correlation, short version, ApiMessage data, long createdMs) {
        return SimAsked.request(correlation, version, data, createdMs);
    }

    void shutdown(int timeoutMs) {
        stopping = client.shutdown(timeoutMs).toCompletableFuture();
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

    KafkaRaftClient<T> client() {
        return client;
    }

    Optional<SimPeer> destination(RaftRequest.Outbound request) {
        return SimSent.destination(request, voters);
    }

    long checkQuorumMs() {
        return TraceQuorum.timeoutMs(fetchTimeoutMs);
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }
}
