package org.apache.kafka.raft;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.UnalignedMemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;

import krucible.Chance;
import krucible.Disk;
import krucible.Kinds;
import krucible.PowerFailure;
import krucible.Replica;
import krucible.Watchdog;

/**
 * Drives one KafkaRaftClient without a thread: everything that it gets of its surroundings (time,
 * messages, disk) is simulated, and what it does is told as protocol events.
 */
public final class SimReplica implements Replica, TraceTeller.Node {
    private static final int TURNS_MAX = 10_000;
    private static final int IDLE_POLLS_MAX = 5;
    private static final int SPINS_TOLD = 100; // in a row, at a ms each
    static SimReplica current; // whose turn it is: there is one thread

    /** A request that left, until its answer comes. */
    private record Sent(
        RaftRequest.Outbound request, short version, CompletableFuture<RaftResponse.Inbound> answer
    ) {
        void complete(ApiMessage data) {
            answer.complete(SimSent.answered(request, data));
        }
    }

    final int id;
    final SimClock clock = new SimClock();
    final TraceEvents events = new TraceEvents();
    final TraceTeller teller = new TraceTeller(this);
    final SimFiles files;
    final Path folder; // of this host, with Kafka's own log in it; null: the log is on the simulated disk
    final Map<String, String> settings;
    final SimQueues queues = new SimQueues();
    final String clusterId;
    final Map<String, Short> features; // levels that a new cluster begins with, metadata.version first
    long applied;
    private final SimRaft<?> raft; // the client of this release
    private final long seed;
    private final Random random;
    private final boolean isWhole; // with Kafka's own controller
    private Throwable fault; // that ends the process
    private final Polled polled = new Polled();
    private final SimInbox queue = new SimInbox(polled::take, polled::wake);
    private final SimExpirations expirations = new SimExpirations();
    private final Map<Integer, Sent> sent = new HashMap<>();
    private final SimOutputs out = new SimOutputs();
    private final SimDisk disk;
    private SimMetadataLog log;
    private boolean isOver;
    private int spins; // how often it has polled in vain since something came
    private SimMachine<?> machine;

    /**
     * Make the process; nothing is opened yet.
     *
     * @param settings the node's, as in its properties
     * @param identity node.id, directory.id (hex), cluster.id, seed, features (name=level,...); folder, if the log is to be in one of this host
     */
    public SimReplica(Map<String, String> settings, Map<String, String> identity, Disk disk) {
        this.settings = settings;
        this.id = Integer.parseInt(identity.get("node.id"));
        this.clusterId = identity.get("cluster.id");
        this.features = levels(identity.get("features"));
        this.seed = Long.parseLong(identity.get("seed"));
        this.random = new Random(~seed);
        this.isWhole = identity.get("machine").equals("controller");
        this.disk = new SimDisk(disk);
        this.files = new SimFiles(this.disk, events);
        this.folder = SimStorage.folder(identity.get("folder"));
        this.raft = new SimRaft<>(this, identity);
    }

    private static Map<String, Short> levels(String told) {
        Map<String, Short> levels = new LinkedHashMap<>();
        for (String each : told.split(",")) {
            String[] both = each.split("=");
            levels.put(both[0], Short.parseShort(both[1]));
        }
        return levels;
    }

    // ------------------------------------------------------------------ turns

    @Override
    public byte[] start(long steadyNs, long wallMs, boolean isSound) {
        return during(steadyNs, wallMs, isSound, () -> {
            log = SimStorage.log(this);
            SimElections store = SimStorage.elections(this);
            Optional<ElectionState> found = store.read();
            long flushed = log.flushed();
            events.beginWith(() -> teller.start(found, flushed));
            join(store);
            events.begin();
            run();
        });
    }

    @SuppressWarnings({"unchecked", "rawtypes"}) // raft client and machine go with each other
    private void join(SimElections store) {
        machine = isWhole ? controller() : new SimListener(this);
        queues.watch(machine::afterEvent);
        ((SimRaft) raft).open(log, queue, new Channel(), expirations, store, machine);
    }

    /** Kafka's own controller, which is compiled for those releases only that have it here. */
    private SimMachine<?> controller() {
        try {
            return (SimMachine<?>) Class.forName("org.apache.kafka.raft.SimController")
                .getDeclaredConstructor(SimReplica.class, long.class).newInstance(this, seed);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public byte[] turn(long steadyNs, long wallMs, boolean isSound, byte[] inputs) {
        return during(steadyNs, wallMs, isSound, () -> {
            ByteBuffer in = ByteBuffer.wrap(inputs);
            while (in.hasRemaining()) {
                byte kind = in.get();
                int a = in.getInt();
                int b = in.getInt();
                long c = in.getLong();
                short d = in.getShort();
                byte[] data = new byte[in.getInt()];
                in.get(data);
                take(kind, a, b, c, d, data);
            }
            run();
        });
    }

    /** Do something at a time; what ends the process is an output, too. */
    private byte[] during(long steadyNs, long wallMs, boolean isSound, Runnable work) {
        current = this;
        disk.begin(isSound);
        Chance.random = random;
        Thread.currentThread().setContextClassLoader(SimReplica.class.getClassLoader()); // of this release
        clock.steadyNs = steadyNs;
        clock.wallMs = wallMs;
        long waitMs = Long.MAX_VALUE;
        Watchdog.begin();
        try {
            work.run();
            waitMs = Math.min(polled.timeoutMs, expirations.waitMs(clock.hiResClockMs()));
            waitMs = Math.min(waitMs, queues.waitMs(clock.nanoseconds()));
            waitMs = Math.min(waitMs, log.waitMs(clock.hiResClockMs()));
        } catch (PowerFailure e) {
            isOver = true;
            out.clear();
        } catch (Throwable e) {
            isOver = true;
            events.beginWith(null); // who fails before it knows what it starts from tells nothing of it
            StringWriter text = new StringWriter();
            e.printStackTrace(new PrintWriter(text));
            put(Kinds.FATAL, 0, 0, 0, (short) 0, text.toString().getBytes(StandardCharsets.UTF_8));
        } finally {
            current = null;
            Chance.random = null;
        }
        String endless = Watchdog.end();
        if (endless != null) { // whatever came of it
            isOver = true;
            out.clear();
            put(Kinds.ENDLESS, 0, 0, 0, (short) 0, endless.getBytes(StandardCharsets.UTF_8));
        }
        put(Kinds.WAIT, 0, 0, waitMs, (short) 0, new byte[0]);
        return disk.before(outputs());
    }

    /** All that was put out, events first: what the others bring about is told after them. */
    private byte[] outputs() {
        byte[] rest = out.take();
        String told = events.take();
        if (told.isEmpty()) {
            return rest;
        }
        put(Kinds.EVENT, 0, 0, 0, (short) 0, told.getBytes(StandardCharsets.UTF_8));
        out.add(rest);
        return out.take();
    }

    /** Let the other threads go on while this one waits for an fsync of the log: they may answer clients. */
    void beforeFsync() {
        if (raft.quorum() != null) {
            queues.drain();
            disk.release(outputs());
        }
    }

    /**
     * Poll until the client would wait. One that polls again and again at once though nothing comes of it
     * burns a CPU: here it polls each ms.
     */
    private void run() {
        int idle = 0;
        for (int turn = 0; turn < TURNS_MAX; turn++) {
            expirations.fire(clock.hiResClockMs());
            log.work(clock.hiResClockMs());
            polled.woken = false;
            polled.taken = null;
            raft.poll();
            machine.afterPoll();
            teller.done();
            if (raft.hasShutDown()) {
                log.work(clock.hiResClockMs());
                log.stop();
                put(Kinds.STOPPED, 0, 0, 0, (short) 0, new byte[0]);
                return;
            }
            boolean isIdle = polled.taken == null && queue.isEmpty() && !polled.woken
                && expirations.waitMs(clock.hiResClockMs()) > 0 && log.waitMs(clock.hiResClockMs()) > 0;
            idle = isIdle ? idle + 1 : 0;
            spins = polled.taken == null ? spins : 0;
            if (isIdle && idle >= IDLE_POLLS_MAX) {
                if (polled.timeoutMs < 1) {
                    polled.timeoutMs = 1;
                    spun();
                }
            }
            if (isIdle && polled.timeoutMs > 0 && !queues.drain()) {
                return;
            }
            if (fault != null) {
                throw new IllegalStateException(fault.getMessage(), fault);
            }
        }
        throw new IllegalStateException("the raft client is never done: " + TURNS_MAX + " polls at one time");
    }

    /** Tell of a client that would have burnt a CPU for all of the time since something came. */
    private void spun() {
        spins++;
        if (spins == SPINS_TOLD) {
            String role = TraceClient.role((EpochState) TraceInside.get(raft.quorum(), "state"));
            boolean observes = role.equals("follower") && raft.quorum().isObserver();
            event("spin").put("n", spins).put("as", observes ? "observer" : role).end();
        }
    }

    private void take(byte kind, int a, int b, long c, short d, byte[] data) {
        switch (kind) {
            case Kinds.REQUEST -> request(a, (short) (d & 0xff), (short) (d >> 8), data);
            case Kinds.ANSWER -> answer(a, data);
            case Kinds.UNANSWERED -> unanswered(a, Errors.forCode((short) b), d != 0);
            case Kinds.APPEND -> append(a, b, data);
            case Kinds.SNAPSHOT -> ((SimListener) machine).snapshot(new OffsetAndEpoch(c, b), SimListener.unpacked(data));
            case Kinds.SHUTDOWN -> {
                machine.shutdown();
                raft.shutdown(a);
            }
            case Kinds.RESIGN -> raft.resign(b);
            default -> throw new IllegalArgumentException("no input of kind " + kind);
        }
    }

    @Override
    public void close() {
        raft.close();
        if (log != null) {
            log.kill();
        }
    }

    // ------------------------------------------------------------------ outputs

    void put(byte kind, int a, int b, long c, short d, byte[] data) {
        out.put(kind, a, b, c, d, data);
    }

    void log(int level, String text) {
        put(Kinds.LOG, level, 0, 0, (short) 0, text.getBytes(StandardCharsets.UTF_8));
    }

    private void append(int token, int epoch, byte[] values) {
        try {
            long last = ((SimListener) machine).append(epoch, SimListener.unpacked(values));
            put(Kinds.APPENDED, token, 0, last, (short) 0, new byte[0]);
        } catch (org.apache.kafka.common.KafkaException | IllegalArgumentException e) {
            put(Kinds.REFUSED, token, 0, 0, (short) 0, e.toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    /** End the process, as a ProcessTerminatingFaultHandler does. */
    RuntimeException fatal(String message, Throwable cause) {
        if (fault == null) {
            fault = new IllegalStateException(message, cause);
        }
        return new RuntimeException(message, cause);
    }

    java.util.List<Integer> controllers() {
        return raft.controllers();
    }

    void tellLeader(LeaderAndEpoch leader) {
        put(Kinds.LEADER, leader.leaderId().orElse(-1), leader.epoch(), 0, (short) 0, new byte[0]);
    }

    /** The controller has become active, as it logs it. */
    void tellClaim(int epoch) {
        events.event(epoch, "claim").put("applied", applied).end();
    }

    /** The controller is active no more; so many changes that are not committed are still its own. */
    void tellRenounce(int epoch, int kept) {
        events.event(epoch, "renounce").put("applied", applied).put("kept", kept).end();
    }

    // ------------------------------------------------------------------ requests of others

    private void request(int number, short key, short version, byte[] body) {
        ApiMessage data = ApiMessageType.fromApiKey(key).newRequest();
        try {
            data.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), version);
        } catch (RuntimeException e) { // as the server that takes requests for Kafka's raft client
            put(Kinds.REJECTED, number, 0, 0, (short) 0, e.toString().getBytes(StandardCharsets.UTF_8));
            return;
        }
        if (key == ApiKeys.API_VERSIONS.id) { // the server's to answer
            put(Kinds.REPLY, number, 0, 0, (short) 0, bytes(SimApis.answer(), version));
            return;
        }
        if (!SimApis.isOfQuorum(key)) {
            machine.serve(key, version, data).whenComplete((answer, error) -> {
                if (error != null) {
                    fault = error;
                } else if (!isOver) {
                    byte[] said = bytes(answer, version);
                    tellAnswer(key, version, body, said);
                    put(Kinds.REPLY, number, 0, 0, (short) 0, said);
                }
            });
            return;
        }
        RaftRequest.Inbound request = raft.inbound(number, version, data, clock.milliseconds());
        raft.handle(request).whenComplete((response, error) -> {
            if (isOver) {
                return;
            }
            if (error != null) {
                throw new IllegalStateException("request " + request + " failed", error);
            }
            teller.answered(request, response.data());
            try {
                put(Kinds.REPLY, number, 0, 0, (short) 0, bytes(writable(response.data()), version));
            } catch (RuntimeException e) { // or the future would keep it to itself
                unwritable(ApiKeys.forId(key), number, version, e);
            }
        });
    }

    /** Tell what the controller answers to a request, and by which records. */
    private void tellAnswer(short key, short version, byte[] asked, byte[] said) {
        long[] decided = machine.decided();
        if (decided != null && key != ApiKeys.BROKER_HEARTBEAT.id) { // many, and by the controller's clock
            Base64.Encoder base64 = Base64.getEncoder();
            long[] raised = key == ApiKeys.UPDATE_FEATURES.id ? machine.raised() : null;
            var event = event("answered").put("api", key).put("ver", version).put("off", decided[0]).put("n", decided[1]);
            if (decided.length > 2) {
                event.put("held", decided[2]);
            }
            if (raised != null) {
                event.put("kraft", raised[0]);
                if (raised[1] >= 0) {
                    event.put("kraft_after", raised[1]);
                }
            }
            event.put("req", base64.encodeToString(asked)).put("res", base64.encodeToString(said)).end();
        }
    }

    /** An answer that cannot be written: ControllerApis logs it, and says what it says of any exception. */
    private void unwritable(ApiKeys key, int number, short version, RuntimeException e) {
        if (key != ApiKeys.FETCH_SNAPSHOT) {
            fault = e; // no other is known
            return;
        }
        log(40, "Unexpected error handling request RequestHeader(apiKey=" + key + ", apiVersion=" + version
            + "): " + e + " (ControllerApis)");
        ApiMessage told = new FetchSnapshotResponseData().setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code());
        put(Kinds.REPLY, number, 0, 0, (short) 0, bytes(told, version));
    }

    private void answer(int correlation, byte[] body) {
        Sent was = sent.remove(correlation);
        if (was == null) {
            return;
        }
        ApiMessage data = ApiMessageType.fromApiKey(was.request.data().apiKey()).newResponse();
        data.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), was.version);
        was.complete(data);
    }

    /**
     * Tell that no answer comes, as KafkaNetworkChannel does. It has no words for that of a FetchSnapshot before
     * 3.9. What it throws then NetworkClient logs, so that the client hears nothing and goes by its own timeout;
     * where the request waits for a connection still, InterBrokerSendThread ends the process.
     */
    private void unanswered(int correlation, Errors error, boolean isUnsent) {
        Sent was = sent.remove(correlation);
        if (was == null) {
            return;
        }
        ApiMessage told;
        try {
            told = RaftUtil.errorResponse(ApiKeys.forId(was.request.data().apiKey()), error);
        } catch (IllegalArgumentException e) {
            if (isUnsent) {
                throw e;
            }
            log(40, "Uncaught error in request completion: " + e.getMessage() + " (NetworkClient)");
            return;
        }
        was.complete(told);
    }

    /**
     * An answer that can be written: records of a file are read, which Kafka's server hands to the kernel, and a
     * part of a snapshot that is in memory is as a release before 3.9 can write it, too.
     */
    private static ApiMessage writable(ApiMessage answer) {
        if (answer instanceof FetchSnapshotResponseData told) {
            for (FetchSnapshotResponseData.TopicSnapshot topic : told.topics()) {
                for (FetchSnapshotResponseData.PartitionSnapshot part : topic.partitions()) {
                    if (part.unalignedRecords() instanceof UnalignedMemoryRecords records) {
                        part.setUnalignedRecords(MemoryRecords.readableRecords(records.buffer()));
                    }
                }
            }
        }
        if (answer instanceof FetchResponseData told) {
            for (FetchResponseData.FetchableTopicResponse topic : told.responses()) {
                for (FetchResponseData.PartitionData part : topic.partitions()) {
                    if (part.records() instanceof FileRecords records) {
                        part.setRecords(inMemory(records));
                    }
                }
            }
        }
        return answer;
    }

    private static MemoryRecords inMemory(FileRecords records) {
        ByteBuffer read = ByteBuffer.allocate(records.sizeInBytes());
        try {
            records.readInto(read, 0);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return MemoryRecords.readableRecords(read);
    }

    static byte[] bytes(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] encoded = new byte[message.size(cache, version)];
        message.write(new ByteBufferAccessor(ByteBuffer.wrap(encoded)), cache, version);
        return encoded;
    }

    /** Sends requests as outputs. */
    private final class Channel implements SimChannel {
        private int correlations;

        @Override
        public int newCorrelationId() {
            return correlations++;
        }

        @Override
        public void send(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer) {
            ApiMessage data = request.data();
            Optional<SimPeer> to = raft.destination(request);
            short version = ApiKeys.forId(data.apiKey()).latestVersion();
            Sent made = new Sent(request, version, answer);
            if (to.isEmpty()) {
                made.complete(RaftUtil.errorResponse(ApiKeys.forId(data.apiKey()), Errors.BROKER_NOT_AVAILABLE));
                return;
            }
            sent.put(request.correlationId(), made);
            teller.sent(request, to.get().id());
            byte[] host = to.get().host().getBytes(StandardCharsets.UTF_8);
            byte[] body = bytes(data, version);
            ByteBuffer both = ByteBuffer.allocate(host.length + 1 + body.length);
            both.put(host).put((byte) 0).put(body);
            put(Kinds.SEND, request.correlationId(), to.get().port(), to.get().id(),
                (short) (version << 8 | data.apiKey()), both.array());
        }
    }

    // ------------------------------------------------------------------ what is told

    /** Begin an event of the present epoch. */
    @Override
    public TraceEvents event(String type) {
        return events.event(raft.epoch(), type);
    }

    @Override
    public TraceEvents event(int epoch, String type) {
        return events.event(epoch, type);
    }

    @Override
    public Time clock() {
        return clock;
    }

    @Override
    public long handledMs() {
        return clock.milliseconds();
    }

    @Override
    public QuorumState quorum() {
        return raft.quorum();
    }

    @Override
    public KafkaRaftClient<?> raft() {
        return raft.client();
    }

    @Override
    public long endOffset() {
        return log.end();
    }

    @Override
    public int lastEpoch() {
        return log.lastFetchedEpoch();
    }

    @Override
    public long startOffset() {
        return log.startOffset();
    }

    @Override
    public long highWatermark() {
        return log.committed();
    }

    @Override
    public Iterable<OffsetAndEpoch> snapshotIds() {
        return log.snapshotIds();
    }

    @Override
    public String cause() {
        return polled.cause();
    }

    @Override
    public String roles() {
        return settings.getOrDefault("process.roles", "controller");
    }

    @Override
    public long checkQuorumMs() {
        return raft.checkQuorumMs();
    }

    int epoch() {
        return raft.epoch();
    }

    /** Where control batches begin that were not applied, and that lie just before an offset. */
    long controlsBefore(long offset) {
        return log.controlsBefore(offset, applied);
    }

    void tellSnapshot(String op, OffsetAndEpoch snapshot, byte[] data) {
        teller.voters();
        String sha = data == null ? null : TraceRaft.digest(MemoryRecords.readableRecords(ByteBuffer.wrap(data)));
        if (op.equals("freeze")) {
            machine.frozen(TraceId.offset(snapshot));
        }
        teller.snapshot(op, snapshot, data == null ? 0 : data.length, sha);
    }

    // ------------------------------------------------------------------ time and messages

    /** Time as the simulation says. */
    static final class SimClock implements Time {
        long steadyNs;
        long wallMs;

        @Override
        public long milliseconds() {
            return wallMs;
        }

        @Override
        public long nanoseconds() {
            return steadyNs;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException("nobody sleeps in a simulation");
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("nobody waits in a simulation");
        }
    }

    /** What the raft client asked its queue for, since it was given its turn. */
    private final class Polled {
        private boolean woken;
        private RaftMessage taken;
        private long timeoutMs = 0;

        void take(RaftMessage message, long timeoutMs) {
            this.timeoutMs = timeoutMs;
            taken = message;
            teller.taken(message);
        }

        void wake() {
            woken = true;
        }

        /** The type of the message that is being handled; null: none is. */
        String cause() {
            return taken == null ? null : TraceRaft.typeOf(taken);
        }
    }

    /** Futures that fail when their time is over. */
    private static final class SimExpirations implements ExpirationService {
        private record Due(long atMs, long number, long timeoutMs, CompletableFuture<?> future) { }

        private final PriorityQueue<Due> due = new PriorityQueue<>(
            (one, other) -> one.atMs != other.atMs ? Long.compare(one.atMs, other.atMs) : Long.compare(one.number, other.number));
        private long numbers;

        @Override
        public <T> CompletableFuture<T> failAfter(long timeoutMs) {
            CompletableFuture<T> future = new CompletableFuture<>();
            due.add(new Due(current.clock.hiResClockMs() + timeoutMs, numbers++, timeoutMs, future));
            return future;
        }

        void fire(long nowMs) {
            drop();
            while (!due.isEmpty() && due.peek().atMs <= nowMs) {
                Due next = due.poll();
                next.future.completeExceptionally(new TimeoutException(
                    "Future failed to be completed before timeout of " + next.timeoutMs + " ms was reached"));
                drop();
            }
        }

        long waitMs(long nowMs) {
            drop();
            return due.isEmpty() ? Long.MAX_VALUE : due.peek().atMs - nowMs;
        }

        private void drop() {
            while (!due.isEmpty() && due.peek().future.isDone()) {
                due.poll();
            }
        }
    }
}
