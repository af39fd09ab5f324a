package org.apache.kafka.raft;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.AddRaftVoterResponseData;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.message.BeginQuorumEpochResponseData;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.EndQuorumEpochResponseData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.message.RemoveRaftVoterRequestData;
import org.apache.kafka.common.message.RemoveRaftVoterResponseData;
import org.apache.kafka.common.message.UpdateRaftVoterRequestData;
import org.apache.kafka.common.message.UpdateRaftVoterResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.raft.internals.BatchMemoryPool;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;

/** The KafkaRaftClient of this release: how it is made, and what is known of its inside. */
final class SimRaft<T> {
    static final ListenerName LISTENER = new ListenerName("CONTROLLER");
    private static final int MAX_FETCH_WAIT_MS = 500; // of KafkaRaftClient, where it is private in some releases
    private static final Field VOTER_STATES = SimInside.field(LeaderState.class, "voterStates");
    private static final Field CREDITS = SimInside.field(LeaderState.class, "fetchedVoters");
    private static final Field PARTITION = SimInside.field(KafkaRaftClient.class, "partitionState");

    /** What a request was about, and how it was answered. */
    record Asked(String api, int peer, Optional<Uuid> directory, int epoch, int error) { }

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
        return (KRaftControlRecordStateMachine) SimInside.get(PARTITION, client);
    }

    long checkQuorumMs() {
        return (long) (config.fetchTimeoutMs() * LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR);
    }

    @SuppressWarnings("unchecked")
    static Collection<LeaderState.ReplicaState> states(LeaderState<?> leader) {
        return ((Map<Integer, LeaderState.ReplicaState>) SimInside.get(VOTER_STATES, leader)).values();
    }

    /** Have a leader that begins count in a set of ours who keeps it in its role. */
    static SimCredits credits(SimReplica node, LeaderState<?> leader) {
        SimCredits credits = new SimCredits(node, leader);
        SimInside.set(CREDITS, leader, credits);
        return credits;
    }

    /** How long a candidate has waited before it stands again; releases since 4.1 have no such timer. */
    static OptionalLong backoff(CandidateState candidate) {
        if (!SimInside.has(CandidateState.class, "backoffTimer") || !(Boolean) SimInside.call(candidate, "isBackingOff")) {
            return OptionalLong.empty();
        }
        return OptionalLong.of((Long) SimInside.get(SimInside.get(candidate, "backoffTimer"), "timeoutMs"));
    }

    static Asked asked(ApiMessage request, ApiMessage response) {
        if (request instanceof BeginQuorumEpochRequestData asked) {
            BeginQuorumEpochRequestData.PartitionData part = asked.topics().get(0).partitions().get(0);
            BeginQuorumEpochResponseData answer = (BeginQuorumEpochResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new Asked("BeginQuorumEpoch", part.leaderId(), Optional.empty(), part.leaderEpoch(),
                answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof EndQuorumEpochRequestData asked) {
            EndQuorumEpochRequestData.PartitionData part = asked.topics().get(0).partitions().get(0);
            EndQuorumEpochResponseData answer = (EndQuorumEpochResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new Asked("EndQuorumEpoch", part.leaderId(), Optional.empty(), part.leaderEpoch(),
                answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof FetchSnapshotRequestData asked) {
            FetchSnapshotRequestData.PartitionSnapshot part = asked.topics().get(0).partitions().get(0);
            FetchSnapshotResponseData answer = (FetchSnapshotResponseData) response;
            int error = answer.topics().isEmpty() ? 0 : answer.topics().get(0).partitions().get(0).errorCode();
            return new Asked("FetchSnapshot", asked.replicaId(), directory(part.replicaDirectoryId()),
                part.currentLeaderEpoch(), answer.errorCode() == 0 ? error : answer.errorCode());
        }
        if (request instanceof AddRaftVoterRequestData asked) {
            return new Asked("AddVoter", asked.voterId(), directory(asked.voterDirectoryId()), -1,
                ((AddRaftVoterResponseData) response).errorCode());
        }
        if (request instanceof RemoveRaftVoterRequestData asked) {
            return new Asked("RemoveVoter", asked.voterId(), directory(asked.voterDirectoryId()), -1,
                ((RemoveRaftVoterResponseData) response).errorCode());
        }
        if (request instanceof UpdateRaftVoterRequestData asked) {
            return new Asked("UpdateVoter", asked.voterId(), directory(asked.voterDirectoryId()),
                asked.currentLeaderEpoch(), ((UpdateRaftVoterResponseData) response).errorCode());
        }
        return null;
    }

    /** Whether a change of the voters is answered when it is committed. */
    static boolean waitsForCommit(ApiMessage request) {
        return request instanceof AddRaftVoterRequestData || request instanceof RemoveRaftVoterRequestData;
    }

    static Optional<Uuid> directory(Uuid id) {
        return id.equals(Uuid.ZERO_UUID) ? Optional.empty() : Optional.of(id);
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    /** SHA-256 of what a snapshot says; when it was written, which batches and header have, is left out. */
    static String digest(byte[] data) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                for (Record record : batch) {
                    if (!batch.isControlBatch()
                        || ControlRecordType.parse(record.key()) != ControlRecordType.SNAPSHOT_HEADER) {
                        digest.update(Utils.toArray(record.value()));
                    }
                }
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
