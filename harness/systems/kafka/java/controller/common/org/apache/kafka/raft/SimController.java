package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.AllocateProducerIdsRequestData;
import org.apache.kafka.common.message.AllocateProducerIdsResponseData;
import org.apache.kafka.common.message.AlterConfigsRequestData;
import org.apache.kafka.common.message.AlterConfigsResponseData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionResponseData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatResponseData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.BrokerRegistrationResponseData;
import org.apache.kafka.common.message.CreatePartitionsRequestData;
import org.apache.kafka.common.message.CreatePartitionsResponseData;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.message.DeleteTopicsRequestData;
import org.apache.kafka.common.message.DeleteTopicsResponseData;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.IncrementalAlterConfigsRequestData;
import org.apache.kafka.common.message.IncrementalAlterConfigsResponseData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.MetadataRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.UnregisterBrokerRequestData;
import org.apache.kafka.common.message.UnregisterBrokerResponseData;
import org.apache.kafka.common.message.UpdateFeaturesRequestData;
import org.apache.kafka.common.message.UpdateFeaturesResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.ElectLeadersRequest;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.server.fault.FaultHandler;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own controller above the raft client, put together as ControllerServer and SharedServer do it:
 * QuorumController, and what loads metadata and makes snapshots ({@link SimLoader}). What ControllerApis does with a request and the
 * outcome is done here, for those requests that clients of a simulation send.
 */
final class SimController implements SimMachine<ApiMessageAndVersion> {
    private static final long SNAPSHOT_BYTES = 20 * 1024 * 1024;
    private static final long COMPARED_NS = 250_000_000;
    /** Heartbeats with these answers prolong no session. */
    private static final Set<Errors> UNHEARD = Set.of(Errors.STALE_BROKER_EPOCH, Errors.BROKER_ID_NOT_REGISTERED);

    private final SimReplica node;
    private final Map<String, String> settings;
    private final Random random;
    private final SimImages images;
    private final SimTokens tokens;
    private KafkaRaftClient<ApiMessageAndVersion> client;
    private QuorumController controller;
    private TraceMemory memory;
    private TraceOffsets offsets;
    private long comparedNs;
    private int claimed = -1; // the epoch in which it is active
    private LeaderAndEpoch told; // last
    private long[] decided; // see ``decided()``
    private long[] noted; // kraft.version when it was asked to change levels, and at what time

    SimController(SimReplica node, long seed) {
        this.node = node;
        this.settings = node.settings;
        this.random = new Random(seed);
        this.images = new SimImages(node);
        this.tokens = new SimTokens(settings);
    }

    @Override
    public RecordSerde<ApiMessageAndVersion> serde() {
        return MetadataRecordSerde.INSTANCE;
    }

    /** Whether a node has a controller. */
    static boolean isOn(SimReplica node) {
        return node.settings.getOrDefault("process.roles", "controller").contains("controller");
    }

    static long number(Map<String, String> settings, String name, long otherwise) {
        String text = settings.get(name);
        return text == null ? otherwise : Long.parseLong(text);
    }

    private long number(String name, long otherwise) {
        return number(settings, name, otherwise);
    }

    /** After how many bytes of records a node makes a snapshot. */
    static long snapshotBytes(Map<String, String> settings) {
        return number(settings, "metadata.log.max.record.bytes.between.snapshots", SNAPSHOT_BYTES);
    }

    @Override
    public void open(KafkaRaftClient<ApiMessageAndVersion> client) {
        this.client = client;
        client.register(new Told());
        boolean isController = isOn(node);
        FaultHandler fatal = (message, cause) -> {
            throw node.fatal(message, cause);
        };
        FaultHandler other = (message, cause) -> {
            node.log(40, "Encountered nonfatal fault: " + message + (cause == null ? "" : ": " + cause));
            return new RuntimeException(message, cause);
        };
        // a controller's node must not go on with wrong images, as SharedServer has it
        SimLoader.open(node, client, isController ? fatal : other, other,
            tokens.areThere() ? List.of(images, tokens) : List.of(images));
        if (!isController) {
            return;
        }
        long idleMs = number("metadata.max.idle.interval.ms", 500);
        Map<String, Object> fixed = new HashMap<>(settings);
        fixed.putIfAbsent("min.insync.replicas", 1);
        try {
            QuorumController.Builder builder = new QuorumController.Builder(node.id, node.clusterId);
            controller = SimFaults.handled(SimMetrics.kept(tokens.configured(periods(SimLoader.freezing(builder, node))), node.clock), fatal, other)
                .setTime(node.clock)
                .setThreadNamePrefix("quorum-controller-" + node.id + "-")
                .setConfigSchema(kafka.server.KafkaRaftServer.configSchema())
                .setConfigurationValidator(SimValidator.get())
                .setRaftClient(client)
                .setQuorumFeatures(SimFeatures.known(node.id, node.controllers()))
                .setDefaultReplicationFactor((short) number("default.replication.factor", 1))
                .setReplicaPlacer(new StripedReplicaPlacer(random))
                .setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(number("broker.session.timeout.ms", 9000)))
                .setMaxIdleIntervalNs(
                    idleMs == 0 ? OptionalLong.empty() : OptionalLong.of(TimeUnit.MILLISECONDS.toNanos(idleMs)))
                .setStaticConfig(fixed)
                .setBootstrapMetadata(formatted())
                .build();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        SimTokens.keepTime(controller, node.clock);
        memory = new TraceMemory(controller);
        offsets = new TraceOffsets(controller);
    }

    /** How often it looks for partitions that could have a better leader, or one at all: ControllerServer's defaults. */
    private QuorumController.Builder periods(QuorumController.Builder builder) {
        boolean balances = Boolean.parseBoolean(settings.getOrDefault("auto.leader.rebalance.enable", "true"));
        long seconds = number("leader.imbalance.check.interval.seconds", 300);
        builder.setLeaderImbalanceCheckIntervalNs(
            balances ? OptionalLong.of(TimeUnit.SECONDS.toNanos(seconds)) : OptionalLong.empty());
        return SimPeriods.unclean(builder, number("unclean.leader.election.interval.ms", 300_000));
    }

    /** What kafka-storage would have formatted the cluster with. */
    private BootstrapMetadata formatted() {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        node.features.forEach((name, level) -> records.add(new ApiMessageAndVersion(
            new FeatureLevelRecord().setName(name).setFeatureLevel(level), (short) 0)));
        return BootstrapMetadata.fromRecords(records, "simulation");
    }

    @Override
    public void shutdown() {
        if (controller != null) {
            controller.beginShutdown();
        }
    }

    /** Tell now and then whether the controller's memory is what its node's image is. */
    private void compare() {
        long now = node.clock.nanoseconds();
        if (memory == null || now - comparedNs < COMPARED_NS) {
            return;
        }
        long offset = offsets.settled(claimed != -1);
        MetadataImage image = images.newest();
        boolean isOther = TraceId.offset(image.highestOffsetAndEpoch()) != offset;
        if (offset < 0 || isOther || TraceLoaded.isJust(client, offset)) {
            return;
        }
        comparedNs = now;
        node.event("memory").put("off", offset + 1).texts("wrong", memory.taken().differences(image)).end();
    }

    @Override
    public void frozen(long end) {
        images.frozen(end);
    }

    @Override
    public void afterEvent() {
        compare();
        int now = controller == null ? -1 : controller.curClaimEpoch();
        if (now == claimed) {
            return;
        }
        if (now == -1) {
            SnapshotRegistry registry = (SnapshotRegistry) TraceInside.get(controller, "snapshotRegistry");
            long kept = registry.epochsList().stream().filter(offset -> offset >= offsets.stable()).count();
            node.tellRenounce(claimed, (int) kept);
        }
        claimed = now;
    }

    /** Look whom the client follows, as SimListener does. */
    @Override
    public void afterPoll() {
        LeaderAndEpoch leader = client.leaderAndEpoch();
        boolean isAnother = leader.leaderId().isPresent() && !leader.isLeader(node.id);
        if (isAnother && !leader.equals(told)) {
            tell(leader);
        }
    }

    private void tell(LeaderAndEpoch leader) {
        told = leader;
        node.tellLeader(leader);
    }

    // ------------------------------------------------------------------ requests

    /** Of a request of some version, which the controller looks at: newer ones say more. */
    private static ControllerRequestContext context(short version) {
        RequestHeaderData header = new RequestHeaderData().setRequestApiVersion(version);
        return new ControllerRequestContext(header, KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    /**
     * Have the controller do something, and tell of the record that the answer waited for. What it throws at
     * once is an answer, too, as for ControllerApis. What it refuses without a result it refuses at once, by all
     * that it has in memory.
     */
    private <T> CompletableFuture<T> done(short key, Supplier<CompletableFuture<T>> call) {
        try {
            CompletableFuture<T> answer = call.get();
            Object event = node.queues.newest();
            return answer.whenComplete((reply, error) -> {
                Object result = error == null ? TraceInside.get(event, "resultAndOffset") : null;
                if (result == null) {
                    decided = new long[] {offsets.end(), 0};
                    return;
                }
                long last = (Long) TraceInside.call(result, "offset"); // -1: all is committed, and nothing is new
                int written = ((List<?>) TraceInside.call(result, "records")).size();
                decided = new long[] {last < 0 ? offsets.end() : last + 1 - written, written};
                node.teller.ack(ApiKeys.forId(key).name, last);
            });
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    /** Have the controller look at its metadata, and tell by which records, and how many more it has in memory. */
    private <T> CompletableFuture<T> read(Supplier<CompletableFuture<T>> call) {
        return call.get().whenComplete((reply, error) ->
            decided = new long[] {offsets.stable(), 0, offsets.end() - offsets.stable()});
    }

    /** The level of kraft.version that it goes by, and the time. */
    private long[] level() {
        return new long[] {SimLevel.of(client), node.clock.nanoseconds()};
    }

    @Override
    public long[] decided() {
        long[] newest = decided;
        decided = null;
        return newest;
    }

    @Override
    public long[] raised() {
        long[] before = noted;
        noted = null;
        if (before == null) {
            return null;
        }
        long[] now = level();
        return new long[] {before[0], before[1] == now[1] ? now[0] : -1};
    }

    @Override
    public CompletableFuture<ApiMessage> serve(short key, short version, ApiMessage request) {
        if (request instanceof BrokerRegistrationRequestData asked) {
            return done(key, () -> controller.registerBroker(context(version), asked)).handle((reply, e) ->
                new BrokerRegistrationResponseData().setErrorCode(code(e)).setBrokerEpoch(e == null ? reply.epoch() : -1));
        }
        if (request instanceof BrokerHeartbeatRequestData asked) {
            long given = node.clock.nanoseconds();
            return done(key, () -> controller.processBrokerHeartbeat(context(version), asked)).handle((reply, e) -> {
                BrokerHeartbeatResponseData answer = new BrokerHeartbeatResponseData().setErrorCode(code(e));
                if (!UNHEARD.contains(Errors.forCode(answer.errorCode()))) { // in doubt it was heard
                    node.teller.contact(asked.brokerId(), asked.brokerEpoch(), (node.clock.nanoseconds() - given) / 1_000_000);
                }
                return e != null ? answer : answer.setIsCaughtUp(reply.isCaughtUp()).setIsFenced(reply.isFenced())
                    .setShouldShutDown(reply.shouldShutDown());
            });
        }
        if (request instanceof AllocateProducerIdsRequestData asked) {
            return done(key, () -> controller.allocateProducerIds(context(version), asked)).handle((reply, e) ->
                e == null ? reply : new AllocateProducerIdsResponseData().setErrorCode(code(e)));
        }
        if (request instanceof UpdateFeaturesRequestData asked) {
            noted = level();
            return done(key, () -> controller.updateFeatures(context(version), asked)).handle((reply, e) ->
                e == null ? reply : new UpdateFeaturesResponseData().setErrorCode(code(e)).setErrorMessage(message(e)));
        }
        if (request instanceof UnregisterBrokerRequestData asked) {
            return done(key, () -> controller.unregisterBroker(context(version), asked.brokerId())).handle((reply, e) ->
                new UnregisterBrokerResponseData().setErrorCode(code(e)));
        }
        if (request instanceof CreateTopicsRequestData asked) {
            return done(key, () -> SimCalls.createTopics(controller, context(version), asked)).handle((reply, e) -> {
                if (e == null) {
                    return reply;
                }
                CreateTopicsResponseData answer = new CreateTopicsResponseData();
                asked.topics().forEach(topic -> answer.topics().add(new CreateTopicsResponseData.CreatableTopicResult()
                    .setName(topic.name()).setErrorCode(code(e)).setErrorMessage(message(e))));
                return answer;
            });
        }
        if (request instanceof CreatePartitionsRequestData asked) {
            return done(key, () -> controller.createPartitions(context(version), new ArrayList<>(asked.topics()), asked.validateOnly())).handle((reply, e) -> {
                CreatePartitionsResponseData answer = new CreatePartitionsResponseData();
                if (e == null) {
                    return answer.setResults(reply);
                }
                asked.topics().forEach(topic -> answer.results().add(new CreatePartitionsResponseData.CreatePartitionsTopicResult()
                    .setName(topic.name()).setErrorCode(code(e)).setErrorMessage(message(e))));
                return answer;
            });
        }
        if (request instanceof IncrementalAlterConfigsRequestData asked) {
            return alter(key, version, asked);
        }
        if (request instanceof AlterConfigsRequestData asked) {
            return replace(key, version, asked);
        }
        if (request instanceof DeleteTopicsRequestData asked) {
            return delete(key, version, asked);
        }
        if (request instanceof AlterPartitionRequestData asked) {
            return done(key, () -> controller.alterPartition(context(version), asked)).handle((reply, e) ->
                e == null ? reply : new AlterPartitionResponseData().setErrorCode(code(e)));
        }
        if (request instanceof AlterPartitionReassignmentsRequestData asked) {
            return done(key, () -> controller.alterPartitionReassignments(context(version), asked)).handle((reply, e) ->
                e == null ? reply : new AlterPartitionReassignmentsResponseData().setErrorCode(code(e)).setErrorMessage(message(e)));
        }
        if (request instanceof ListPartitionReassignmentsRequestData asked) {
            return read(() -> controller.listPartitionReassignments(context(version), asked)).handle((reply, e) ->
                e == null ? reply : new ListPartitionReassignmentsResponseData().setErrorCode(code(e)).setErrorMessage(message(e)));
        }
        if (request instanceof ElectLeadersRequestData asked) {
            return done(key, () -> controller.electLeaders(context(version), asked)).handle((reply, e) ->
                e == null ? reply
                    : TraceInside.<ElectLeadersRequest>made(ElectLeadersRequest.class, asked, version).getErrorResponse(0, cause(e)).data());
        }
        if (request instanceof DescribeConfigsRequestData asked) {
            return images.shown(image -> SimViews.configs(image, asked));
        }
        if (request instanceof MetadataRequestData asked) {
            return images.shown(image -> SimViews.topics(image, asked));
        }
        ControllerRequestContext context = context(version);
        return SimSecurity.serve(this::done, controller, key, context, request)
            .or(() -> SimScrams.serve(this::done, controller, key, context, request))
            .or(() -> SimTokens.serve(this::done, controller, key, context, request))
            .or(() -> SimReplicas.serve(this::done, controller, key, context, request))
            .orElseThrow(() -> new UnsupportedOperationException("API " + key + " is not served"));
    }

    /** Find the id of a topic, then delete that, as ControllerApis does it; of one name at a time. */
    private CompletableFuture<ApiMessage> delete(short key, short version, DeleteTopicsRequestData asked) {
        String name = asked.topics().get(0).name();
        return controller.findTopicIds(context(version), List.of(name))
            .thenCompose(found -> {
                ResultOrError<Uuid> id = found.get(name);
                return id.isError() ? CompletableFuture.completedFuture(id.error())
                    : done(key, () -> controller.deleteTopics(context(version), List.of(id.result()))).thenApply(all -> all.get(id.result()));
            })
            .handle((outcome, e) -> {
                ApiError error = e == null ? outcome : error(e);
                DeleteTopicsResponseData answer = new DeleteTopicsResponseData();
                answer.responses().add(new DeleteTopicsResponseData.DeletableTopicResult()
                    .setName(name).setErrorCode(error.error().code()).setErrorMessage(error.message()));
                return answer;
            });
    }

    private CompletableFuture<ApiMessage> alter(short key, short version, IncrementalAlterConfigsRequestData asked) {
        Map<ConfigResource, Map<String, Map.Entry<AlterConfigOp.OpType, String>>> changes = new LinkedHashMap<>();
        for (IncrementalAlterConfigsRequestData.AlterConfigsResource each : asked.resources()) {
            Map<String, Map.Entry<AlterConfigOp.OpType, String>> named = new LinkedHashMap<>();
            each.configs().forEach(config -> named.put(config.name(), new java.util.AbstractMap.SimpleEntry<>(
                AlterConfigOp.OpType.forId(config.configOperation()), config.value())));
            changes.put(new ConfigResource(ConfigResource.Type.forId(each.resourceType()), each.resourceName()), named);
        }
        return done(key, () -> SimCalls.alterConfigs(controller, context(version), changes, asked.validateOnly())).handle((reply, e) -> {
            IncrementalAlterConfigsResponseData answer = new IncrementalAlterConfigsResponseData();
            for (ConfigResource resource : changes.keySet()) {
                ApiError error = e == null ? reply.get(resource) : error(e);
                answer.responses().add(new IncrementalAlterConfigsResponseData.AlterConfigsResourceResponse()
                    .setResourceType(resource.type().id()).setResourceName(resource.name())
                    .setErrorCode(error.error().code()).setErrorMessage(error.message()));
            }
            return answer;
        });
    }

    private CompletableFuture<ApiMessage> replace(short key, short version, AlterConfigsRequestData asked) {
        Map<ConfigResource, Map<String, String>> settings = new LinkedHashMap<>();
        for (AlterConfigsRequestData.AlterConfigsResource each : asked.resources()) {
            Map<String, String> named = new LinkedHashMap<>();
            each.configs().forEach(config -> named.put(config.name(), config.value()));
            settings.put(new ConfigResource(ConfigResource.Type.forId(each.resourceType()), each.resourceName()), named);
        }
        return done(key, () -> SimCalls.replaceConfigs(controller, context(version), settings, asked.validateOnly())).handle((reply, e) -> {
            AlterConfigsResponseData answer = new AlterConfigsResponseData();
            for (ConfigResource resource : settings.keySet()) {
                ApiError error = e == null ? reply.get(resource) : error(e);
                answer.responses().add(new AlterConfigsResponseData.AlterConfigsResourceResponse()
                    .setResourceType(resource.type().id()).setResourceName(resource.name())
                    .setErrorCode(error.error().code()).setErrorMessage(error.message()));
            }
            return answer;
        });
    }

    static Throwable cause(Throwable error) {
        return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    }

    static ApiError error(Throwable error) {
        return new ApiError(Errors.forCode(code(error)), message(error));
    }

    static short code(Throwable error) {
        return error == null ? 0 : Errors.forException(cause(error)).code();
    }

    static String message(Throwable error) {
        return cause(error).getMessage();
    }

    /** Tells how far records are applied. */
    private final class Told implements SimHearer<ApiMessageAndVersion> {
        @Override
        public void handleCommit(BatchReader<ApiMessageAndVersion> reader) {
            try (reader) {
                while (reader.hasNext()) {
                    Batch<ApiMessageAndVersion> batch = reader.next();
                    // releases before 3.6 hand over no control batches: they are applied with what follows them
                    long begin = node.controlsBefore(batch.baseOffset());
                    node.applied = batch.lastOffset() + 1;
                    node.event("apply").put("off", node.applied).put("n", node.applied - begin).end();
                }
            }
        }

        @Override
        public void handleLoadSnapshot(org.apache.kafka.snapshot.SnapshotReader<ApiMessageAndVersion> reader) {
            node.applied = TraceId.offset(reader.snapshotId());
            reader.close();
        }

        /** The bootstrap snapshot, which some releases hand over apart: nobody has applied anything by it. */
        public void handleLoadBootstrap(org.apache.kafka.snapshot.SnapshotReader<ApiMessageAndVersion> reader) {
            handleLoadSnapshot(reader);
        }

        @Override
        public void handleLeaderChange(LeaderAndEpoch leader) {
            tell(leader);
        }

        @Override
        public String toString() {
            return "Told";
        }
    }
}
