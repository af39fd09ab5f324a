package org.apache.kafka.raft;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandle;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;

import krucible.agent.Agent;

/**
 * Tells what the raft client of this process does. Kafka's methods call it (see krucible.agent.Hooks), most
 * of them in the raft client's own thread; snapshots are frozen and answers given in others, too.
 */
public final class LiveNode implements TraceTeller.Node {
    private static final Pattern SNAPSHOT = Pattern.compile("(\\d{20})-(\\d{10})\\.checkpoint"); // a whole one
    private static volatile KafkaRaftClient<?> made; // before it is initialized
    private static volatile LiveNode node;

    private final KafkaRaftClient<?> client;
    private final LiveLog log;
    private final Object unified; // the log below that log
    private final MethodHandle reads; // its high watermark
    private final QuorumState quorum;
    private final LiveFile file;
    private final Map<String, String> options;
    private final Path folder; // of the metadata log
    private final TraceTeller teller = new TraceTeller(this);
    private final Set<OffsetAndEpoch> own = ConcurrentHashMap.newKeySet(); // snapshots that it makes itself
    private final TreeSet<OffsetAndEpoch> kept = new TreeSet<>(); // that it has
    private long handledMs = Time.SYSTEM.milliseconds(); // as of which it handles a message
    private long start; // of the log
    private long flushed;
    private volatile long highWatermark; // last told of
    private boolean knowsHighWatermark; // somebody named one since the start, which may be where the log begins
    private RaftMessage taken; // that is being handled
    private volatile long applied; // by the controller

    private LiveNode(KafkaRaftClient<?> client, QuorumState quorum, Map<String, String> options) {
        this.client = client;
        this.quorum = quorum;
        this.options = options;
        this.log = new LiveLog(client);
        this.unified = TraceInside.get(log.itself(), "log");
        this.reads = TraceInside.reader(unified.getClass(), "highWatermark", long.class);
        this.folder = Path.of(options.get("log"));
        Uuid directory = LiveRaft.directory(client, folder);
        long incarnation = Long.parseLong(options.get("incarnation"));
        this.file = new LiveFile(options.get("file"), client.nodeId().orElse(-1), TraceEvents.hex(directory), incarnation);
    }

    /** The node of this process; null until it has told of its start. */
    static LiveNode started() {
        return node;
    }

    /** A raft client was made; it is the only one of the process. */
    static void made(Object client) {
        made = (KafkaRaftClient<?>) client;
    }

    /** It has read its log, and is about to take up its quorum state. */
    static void begins(Object quorum, Map<String, String> options, Collection<String> missing) {
        LiveNode begun = new LiveNode(made, (QuorumState) quorum, options);
        begun.start(missing);
        node = begun;
    }

    private void start(Collection<String> missing) {
        QuorumStateStore store = (QuorumStateStore) TraceInside.get(quorum, "store");
        Optional<ElectionState> found = LiveRaft.stored(store);
        start = log.start();
        // A broker flushes nothing of the metadata while it runs, so that its host's power may take what it finds.
        flushed = List.of(roles().split(",")).contains("controller") ? log.end() : start;
        highWatermark = told();
        kept.addAll(stored());
        teller.start(found, flushed);
        TraceEvents told = event(found.map(TraceElection::epoch).orElse(0), "agent").open("missing", '[');
        for (String each : missing) {
            told.comma().raw("\"" + each + "\"");
        }
        told.close(']').end();
    }

    private Set<OffsetAndEpoch> stored() {
        Set<OffsetAndEpoch> found = new HashSet<>();
        try (DirectoryStream<Path> paths = Files.newDirectoryStream(folder)) {
            for (Path path : paths) {
                Matcher name = SNAPSHOT.matcher(path.getFileName().toString());
                if (name.matches()) {
                    found.add(new OffsetAndEpoch(Long.parseLong(name.group(1)), Integer.parseInt(name.group(2))));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return found;
    }

    // ------------------------------------------------------------------ what the hooks say

    void transition(Object to, Object from) {
        teller.transition((EpochState) to, (EpochState) from);
    }

    void electionState(Object state) {
        teller.electionState((ElectionState) state);
    }

    void taken(Object message, long currentTimeMs) {
        handledMs = currentTimeMs;
        taken = (RaftMessage) message;
        teller.taken(taken);
    }

    void done() {
        teller.done();
        taken = null;
    }

    void sent(Object request) {
        RaftRequest.Outbound asked = (RaftRequest.Outbound) request;
        LiveRaft.destination(asked).ifPresent(to -> {
            teller.sent(asked, to);
            file.flush();
        });
    }

    void answered(RaftRequest.Inbound request, ApiMessage answer) {
        teller.answered(request, answer);
        file.flush();
    }

    void noQuorum() {
        teller.noQuorum();
    }

    void voters(Object read, long offset) {
        teller.voters((VoterSet) read, offset);
    }

    /** Records are in the log, as far as it took them: a batch of a newer epoch is left out, and all behind it. */
    void appended(Object records, boolean leads) {
        long end = log.end();
        for (RecordBatch batch : ((Records) records).batches()) {
            if (batch.lastOffset() >= end) {
                break;
            }
            teller.appended(batch, leads);
        }
    }

    /** The log is on the disk up to where it ended before the fsync. */
    void flushed(long upto) {
        if (upto > flushed) {
            flushed = upto;
            event("flush").put("upto", upto).end();
        }
    }

    /** A log is about to be cut. */
    void cut(Object cut, long to) {
        long was = log.end();
        if (cut == unified && to < was) {
            event("trunc").put("to", to).put("was", was).put("why", "diverged").end();
            flushed = Math.min(flushed, to);
        }
    }

    void newHighWatermark() throws ReflectiveOperationException {
        long now = told();
        if (!knowsHighWatermark || now != highWatermark) {
            knowsHighWatermark = true;
            highWatermark = now;
            teller.highWatermark(now);
            LiveWrong.after(this, options.getOrDefault("force", ""), now);
        }
    }

    /** The newest snapshot has taken the place of the log. */
    void installed() {
        OffsetAndEpoch newest = log.latestSnapshot().orElseThrow();
        snapshot("install", newest);
        start = flushed = highWatermark = log.end();
        event("lstart").put("v", start).end();
        forget();
    }

    /** The log may begin later than it did. */
    void cleaned() {
        long now = log.start();
        if (now != start) {
            start = now;
            event("lstart").put("v", now).end();
            forget();
        }
    }

    private void forget() {
        synchronized (kept) {
            log.earliestSnapshot().ifPresent(first -> {
                for (OffsetAndEpoch old : Set.copyOf(kept.headSet(first))) {
                    kept.remove(old);
                    teller.snapshot("delete", old, 0, null);
                }
            });
        }
    }

    /** The node begins a snapshot of its own. */
    void makes(Object id) {
        own.add((OffsetAndEpoch) id);
    }

    /** A snapshot has its name. */
    void frozen(Object id) {
        OffsetAndEpoch snapshot = (OffsetAndEpoch) id;
        synchronized (kept) {
            kept.add(snapshot);
        }
        if (own.remove(snapshot)) {
            snapshot("freeze", snapshot);
        }
    }

    private void snapshot(String op, OffsetAndEpoch id) {
        try (FileRawSnapshotReader reader = FileRawSnapshotReader.open(folder, id)) {
            teller.snapshot(op, id, reader.sizeInBytes(), TraceRaft.digest(reader.records()));
        }
    }

    /** The controller answers a request whose last record has that offset. */
    public void ack(String api, long offset) {
        teller.ack(api, offset);
        file.flush();
    }

    /** The controller becomes active; {@code committed}: all data below is, as far as it knows. */
    public void claim(int epoch, long committed) {
        event(epoch, "claim").put("applied", Math.max(applied, committed)).end();
    }

    /** The controller answers a request by all records below an offset, and has written so many there. */
    public void decided(short api, short version, long offset, int written, String asked, String said) {
        event("answered").put("api", api).put("ver", version).put("off", offset).put("n", written)
            .put("req", asked).put("res", said).end();
    }

    public void renounce(int epoch, long committed, int kept) {
        event(epoch, "renounce").put("applied", Math.max(applied, committed)).put("kept", kept).end();
    }

    /** The controller has applied a batch, or skipped one without data. */
    void applied(Batch<?> batch) {
        applied(batch.baseOffset(), batch.lastOffset() + 1);
    }

    /** The controller has applied what lies before and at an offset; it does not say where that begins. */
    void appliedTo(long last, int epoch) {
        boolean isSnapshot = applied == 0 && has(new OffsetAndEpoch(last + 1, epoch));
        if (last < 0 || isSnapshot) {
            applied = last + 1; // it begins anew, with nothing or with a snapshot
        } else {
            applied(applied, last + 1);
        }
    }

    private boolean has(OffsetAndEpoch snapshot) {
        synchronized (kept) {
            return kept.contains(snapshot);
        }
    }

    private void applied(long from, long end) {
        applied = end;
        event("apply").put("off", end).put("n", end - from).end();
    }

    void stopped() {
        event("stop").put("why", "signal").end();
    }

    /** An event could not be told: those of its type are missing from now on. */
    void failed(String type, Throwable error) {
        Agent.complain("cannot tell of " + type, error);
        try {
            event(0, "agent").open("missing", '[').comma().raw("\"" + type + "\"").close(']').end();
        } catch (UncheckedIOException e) {
            Agent.complain("cannot tell of that", e);
        }
    }

    // ------------------------------------------------------------------ what is known of it

    static KafkaRaftClient<?> client() {
        return made;
    }

    LiveLog log() {
        return log;
    }

    Object unified() {
        return unified;
    }

    @Override
    public TraceEvents event(String type) {
        return event(quorum.epoch(), type);
    }

    @Override
    public TraceEvents event(int epoch, String type) {
        return new LiveEvents(file, type).event(epoch, type);
    }

    @Override
    public QuorumState quorum() {
        return quorum;
    }

    @Override
    public KafkaRaftClient<?> raft() {
        return client;
    }

    @Override
    public Time clock() {
        return Time.SYSTEM;
    }

    @Override
    public long handledMs() {
        return handledMs;
    }

    @Override
    public long checkQuorumMs() {
        return LiveRaft.checkQuorumMs(client);
    }

    @Override
    public long endOffset() {
        return log.end();
    }

    @Override
    public int lastEpoch() {
        return log.lastEpoch();
    }

    @Override
    public long startOffset() {
        return log.start();
    }

    @Override
    public long highWatermark() {
        return highWatermark;
    }

    /** What the log has for it: nothing but a number, where the log's own method may read the disk. */
    private long told() {
        try {
            return (long) reads.invoke(unified);
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public Iterable<OffsetAndEpoch> snapshotIds() {
        return kept;
    }

    @Override
    public String cause() {
        return taken == null ? null : TraceRaft.typeOf(taken);
    }

    @Override
    public String roles() {
        return options.get("roles");
    }
}
