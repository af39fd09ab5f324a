package org.apache.kafka.raft;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.record.UnalignedMemoryRecords;
import org.apache.kafka.common.record.UnalignedRecords;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Kafka's own metadata log in a folder of this host, on the clock of the simulation: its UnifiedLog, its
 * indexes in memory maps, its checkpoints and its snapshots. Here it is told what it does, and no more.
 *
 * <p>A process that is killed leaves what it wrote, flushed or not, as the kernel would have it. So all that
 * a process finds counts as durable.
 */
final class SimRealLog implements SimMetadataLog {
    private static final String SEGMENT_BYTES = MetadataLogConfig.METADATA_LOG_SEGMENT_BYTES_CONFIG;
    private static final long SEGMENT_BYTES_MIN = 8 << 20; // that Kafka takes

    private final SimReplica node;
    private final Path folder;
    private final SimScheduler scheduler;
    private final SimRealLogClass own;
    private final UnifiedLog unified; // the log below that log
    private final TreeSet<OffsetAndEpoch> kept = new TreeSet<>(); // snapshots
    private long start;
    private long flushed;
    private long highWatermark; // last told of
    private boolean knowsHighWatermark; // somebody named one since the start, which may be where the log begins
    private boolean isOver;

    SimRealLog(SimReplica node) {
        this.node = node;
        this.folder = node.folder;
        this.scheduler = new SimScheduler(node.clock);
        this.own = new SimRealLogClass(
            new TopicPartition("__cluster_metadata", 0), folder.toFile(), node.clock, scheduler, config(node.settings), node.id);
        this.unified = (UnifiedLog) TraceInside.get(own.log, "log");
        this.start = own.log.startOffset();
        this.flushed = unified.logEndOffset();
        this.highWatermark = unified.highWatermark();
        find();
    }

    /** Its settings. Segments that are smaller than Kafka takes are asked for by the setting that its tests have. */
    private static MetadataLogConfig config(Map<String, String> settings) {
        Map<String, String> known = new HashMap<>();
        for (String name : MetadataLogConfig.CONFIG_DEF.names()) {
            if (settings.containsKey(name)) {
                known.put(name, settings.get(name));
            }
        }
        String bytes = known.get(SEGMENT_BYTES);
        if (bytes != null && Long.parseLong(bytes) < SEGMENT_BYTES_MIN) {
            known.remove(SEGMENT_BYTES);
            known.putIfAbsent(MetadataLogConfig.INTERNAL_METADATA_LOG_SEGMENT_BYTES_CONFIG, bytes);
        }
        return new MetadataLogConfig(new AbstractConfig(MetadataLogConfig.CONFIG_DEF, known, false));
    }

    private void find() {
        try (DirectoryStream<Path> paths = Files.newDirectoryStream(folder)) {
            for (Path path : paths) {
                Snapshots.parse(path).filter(found -> !found.partial() && !found.deleted())
                    .ifPresent(found -> kept.add(found.snapshotId()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    // ------------------------------------------------------------------ where it stands

    @Override
    public long end() {
        return unified.logEndOffset();
    }

    @Override
    public long committed() {
        return highWatermark;
    }

    @Override
    public long flushed() {
        return flushed;
    }

    @Override
    public Iterable<OffsetAndEpoch> snapshotIds() {
        return kept;
    }

    @Override
    public LogOffsetMetadata endOffset() {
        return own.log.endOffset();
    }

    @Override
    public LogOffsetMetadata highWatermark() {
        return own.log.highWatermark();
    }

    @Override
    public long startOffset() {
        return own.log.startOffset();
    }

    @Override
    public int lastFetchedEpoch() {
        return own.log.lastFetchedEpoch();
    }

    @Override
    public OffsetAndEpoch endOffsetForEpoch(int epoch) {
        return own.log.endOffsetForEpoch(epoch);
    }

    @Override
    public TopicPartition topicPartition() {
        return own.log.topicPartition();
    }

    @Override
    public Uuid topicId() {
        return own.log.topicId();
    }

    @Override
    public LogFetchInfo read(long offset, Isolation isolation, int maxBytes) {
        return own.read(offset, isolation, maxBytes);
    }

    // ------------------------------------------------------------------ what it does, and tells

    @Override
    public LogAppendInfo appendAsLeader(Records records, int epoch) {
        LogAppendInfo appended = own.log.appendAsLeader(records, epoch);
        tellAppended(records, true);
        return appended;
    }

    @Override
    public LogAppendInfo appendAsFollower(Records records, int epoch) {
        LogAppendInfo appended = own.log.appendAsFollower(records, epoch);
        tellAppended(records, false);
        return appended;
    }

    /** As far as the log took them: a batch of a newer epoch is left out, and all behind it. */
    private void tellAppended(Records records, boolean leads) {
        for (RecordBatch batch : records.batches()) {
            if (batch.lastOffset() >= end()) {
                break;
            }
            node.teller.appended(batch, leads);
        }
    }

    @Override
    public void initializeLeaderEpoch(int epoch) {
        own.log.initializeLeaderEpoch(epoch);
    }

    @Override
    public void flush(boolean forceFlushActiveSegment) {
        long upto = end();
        if (upto > unified.recoveryPoint() || forceFlushActiveSegment) {
            node.beforeFsync();
        }
        own.log.flush(forceFlushActiveSegment);
        if (upto > flushed) {
            flushed = upto;
            node.event("flush").put("upto", upto).end();
        }
    }

    @Override
    public void updateHighWatermark(LogOffsetMetadata metadata) {
        own.log.updateHighWatermark(metadata);
        long now = unified.highWatermark();
        if (!knowsHighWatermark || now != highWatermark) {
            knowsHighWatermark = true;
            highWatermark = now;
            node.teller.highWatermark(now);
        }
    }

    @Override
    public void truncateTo(long offset) {
        long was = end();
        own.log.truncateTo(offset);
        if (end() < was) {
            flushed = Math.min(flushed, end());
            node.event("trunc").put("to", offset).put("was", was).put("why", "diverged").end();
        }
    }

    @Override
    public boolean truncateToLatestSnapshot() {
        boolean cut = own.log.truncateToLatestSnapshot();
        if (cut) {
            start = flushed = highWatermark = end();
            tellSnapshot("install", latestSnapshotId().orElseThrow());
            node.event("lstart").put("v", start).end();
            forget(Map.of());
        }
        return cut;
    }

    @Override
    public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
        boolean deleted = own.log.deleteBeforeSnapshot(id);
        tellStart(Map.of());
        return deleted;
    }

    @Override
    public boolean maybeClean() {
        Map<OffsetAndEpoch, Reason> reasons = kept.size() > 1 ? reasons() : Map.of();
        boolean cleaned = own.log.maybeClean();
        tellStart(reasons);
        return cleaned;
    }

    /** Why a snapshot may go: how old it is, and what there is with it and all that are newer. */
    private record Reason(long ageMs, long held) {
    }

    private Map<OffsetAndEpoch, Reason> reasons() {
        Map<OffsetAndEpoch, Reason> reasons = new HashMap<>();
        long held = unified.size();
        for (OffsetAndEpoch id : kept.descendingSet()) {
            long ageMs = node.clock.milliseconds() - Snapshots.lastContainedLogTimestamp(folder, id, new LogContext());
            held += sizeOf(id);
            reasons.put(id, new Reason(ageMs, held));
        }
        return reasons;
    }

    private long sizeOf(OffsetAndEpoch id) {
        try {
            return Files.size(Snapshots.snapshotPath(folder, id));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void tellStart(Map<OffsetAndEpoch, Reason> reasons) {
        long now = own.log.startOffset();
        if (now != start) {
            start = now;
            node.event("lstart").put("v", now).end();
            forget(reasons);
        }
    }

    /** Tell of snapshots that are there no more: they have another name, and go a minute later. */
    private void forget(Map<OffsetAndEpoch, Reason> reasons) {
        earliestSnapshotId().ifPresent(first -> {
            for (OffsetAndEpoch old : new ArrayList<>(kept.headSet(first))) {
                kept.remove(old);
                Reason reason = reasons.get(old);
                if (reason == null) {
                    node.tellSnapshot("delete", old, null);
                } else {
                    node.teller.cleaned(old, reason.held(), reason.ageMs());
                }
            }
        });
    }

    // ------------------------------------------------------------------ snapshots

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshot(OffsetAndEpoch id) {
        return own.log.createNewSnapshot(id).map(writer -> new Writer(writer, true));
    }

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id) {
        return own.log.createNewSnapshotUnchecked(id).map(writer -> new Writer(writer, false));
    }

    @Override
    public void onSnapshotFrozen(OffsetAndEpoch id) {
        own.log.onSnapshotFrozen(id);
    }

    @Override
    public Optional<RawSnapshotReader> readSnapshot(OffsetAndEpoch id) {
        return own.log.readSnapshot(id).map(Reader::new);
    }

    @Override
    public Optional<RawSnapshotReader> latestSnapshot() {
        return own.log.latestSnapshot().map(Reader::new);
    }

    @Override
    public Optional<OffsetAndEpoch> latestSnapshotId() {
        return own.log.latestSnapshotId();
    }

    @Override
    public Optional<OffsetAndEpoch> earliestSnapshotId() {
        return own.log.earliestSnapshotId();
    }

    private void frozen(OffsetAndEpoch id, boolean isOwn) {
        kept.add(id);
        if (isOwn) {
            tellSnapshot("freeze", id);
        }
    }

    private void tellSnapshot(String op, OffsetAndEpoch id) {
        try {
            node.tellSnapshot(op, id, Files.readAllBytes(Snapshots.snapshotPath(folder, id)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A snapshot that is being written by Kafka's own writer. */
    private final class Writer implements RawSnapshotWriter {
        private final RawSnapshotWriter writer;
        private final boolean isOwn;

        Writer(RawSnapshotWriter writer, boolean isOwn) {
            this.writer = writer;
            this.isOwn = isOwn;
        }

        @Override
        public OffsetAndEpoch snapshotId() {
            return writer.snapshotId();
        }

        @Override
        public long sizeInBytes() {
            return writer.sizeInBytes();
        }

        @Override
        public void append(MemoryRecords records) {
            writer.append(records);
        }

        @Override
        public void append(UnalignedMemoryRecords records) {
            writer.append(records);
        }

        @Override
        public boolean isFrozen() {
            return writer.isFrozen();
        }

        @Override
        public void freeze() {
            writer.freeze();
            frozen(writer.snapshotId(), isOwn);
        }

        @Override
        public void close() {
            writer.close();
        }
    }

    /** Kafka's own reader of a snapshot. What it hands to the network is read at once: nobody sends files here. */
    private record Reader(RawSnapshotReader reader) implements RawSnapshotReader {
        @Override
        public OffsetAndEpoch snapshotId() {
            return reader.snapshotId();
        }

        @Override
        public long sizeInBytes() {
            return reader.sizeInBytes();
        }

        @Override
        public UnalignedRecords slice(long position, int size) {
            ByteBuffer read = ByteBuffer.allocate(reader.slice(position, size).sizeInBytes());
            try {
                ((FileRecords) reader.records()).readInto(read, (int) position);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return new UnalignedMemoryRecords(read);
        }

        @Override
        public Records records() {
            return reader.records();
        }
    }

    // ------------------------------------------------------------------ its other thread, and its end

    @Override
    public boolean work(long nowMs) {
        return scheduler.work(nowMs);
    }

    @Override
    public long waitMs(long nowMs) {
        return scheduler.waitMs(nowMs);
    }

    @Override
    public void stop() {
        isOver = true;
        scheduler.shutdown();
        own.log.close();
        unified.removeLogMetrics();
    }

    @Override
    public void kill() {
        if (!isOver) {
            isOver = true;
            scheduler.shutdown();
            SimRealKill.end(unified);
            unified.removeLogMetrics();
        }
    }
}
