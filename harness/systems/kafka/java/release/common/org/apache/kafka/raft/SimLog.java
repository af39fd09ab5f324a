package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.record.UnalignedMemoryRecords;
import org.apache.kafka.common.record.UnalignedRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/**
 * The metadata log on a simulated disk, in Kafka's own files: what KafkaMetadataLog and the UnifiedLog
 * below it do, in the same order, with the same fsyncs and no others. Batches are also kept in memory,
 * so that reading costs nothing; a restart reads what the disk has.
 *
 * <p>Source: kafka.raft.KafkaMetadataLog, o.a.k.storage.internals.log (UnifiedLog, LocalLog, LogLoader).
 */
final class SimLog implements SimMetadataLog {
    private static final int LENGTH_AT = 8;
    private static final int HEAD = 12; // base offset and length
    private static final int ATTRIBUTES_AT = 21;
    private static final int CONTROL = 0x20;

    /** Batches that came together. */
    private record Entry(long base, long last, int epoch, byte[] data) {
        boolean isControl() {
            return (ByteBuffer.wrap(data).getShort(ATTRIBUTES_AT) & CONTROL) != 0;
        }
    }

    /**
     * A file of the log, and its batches. It may have some behind the beginning of the next one, which were
     * cut off, and which a loss of power has brought back.
     */
    private static final class Segment {
        final long base;
        final String name;
        final List<Entry> entries = new ArrayList<>();
        long bytes;

        Segment(long base) {
            this.base = base;
            this.name = String.format("%020d.log", base);
        }

        String name() {
            return name;
        }

        /** Where the first batch is that ends at the offset or behind it. */
        int place(long offset) {
            int low = 0;
            int high = entries.size();
            while (low < high) {
                int middle = (low + high) >>> 1;
                if (entries.get(middle).last < offset) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return low;
        }
    }

    private final SimFiles files;
    private final SimReplica node;
    private final Time time;
    private final long segmentBytes;
    private final long retentionBytes;
    private final long retentionMs;

    private final TreeMap<Long, Segment> segments = new TreeMap<>();
    private final TreeMap<Integer, Long> epochs = new TreeMap<>(); // start offsets
    private final TreeMap<OffsetAndEpoch, Optional<byte[]>> snapshots = new TreeMap<>();
    private long start;
    private long end;
    private long highWatermark;
    private boolean knowsHighWatermark; // somebody named one since the start, which may be where the log begins
    private long recoveryPoint; // Kafka's: the next flush fsyncs all segments from here on; 0 after a start
    private long durable; // all below was on the disk when it was opened, or is fsynced
    private int parts; // snapshots that were begun

    SimLog(SimFiles files, SimReplica node, Time time, Map<String, String> settings) {
        this.files = files;
        this.node = node;
        this.time = time;
        this.segmentBytes = number(settings, "internal.metadata.log.segment.bytes",
            number(settings, "metadata.log.segment.bytes", 1 << 30));
        this.retentionBytes = number(settings, "metadata.max.retention.bytes", 104857600);
        this.retentionMs = number(settings, "metadata.max.retention.ms", 604800000);
        recoverSegments();
        recoverSnapshots();
        truncateToLatestSnapshot(false);
    }

    private static long number(Map<String, String> settings, String name, long otherwise) {
        String text = settings.get(name);
        return text == null ? otherwise : Long.parseLong(text);
    }

    // ------------------------------------------------------------------ recovery

    /**
     * As LogLoader does it: a segment is good as far as its batches are sound, wherever they lie. That the
     * next one begins before its end is nothing that it asks for.
     */
    private void recoverSegments() {
        boolean corrupt = false;
        boolean whole = true;
        for (String name : files.list()) {
            if (!name.endsWith(".log") || name.length() != 24) {
                continue;
            }
            Segment segment = new Segment(Long.parseLong(name.substring(0, 20)));
            if (corrupt) { // what comes behind a truncated segment is removed
                files.ofLog(told -> files.disk().unlink(told, segment.name()));
                continue;
            }
            byte[] data = files.read(name);
            if (segments.isEmpty()) {
                start = durable = segment.base;
            }
            long durableBytes = files.disk().durable(name);
            int valid = recover(segment, data);
            long position = 0;
            for (Entry entry : segment.entries) {
                position += entry.data.length;
                whole &= position <= durableBytes;
                durable = whole ? entry.last + 1 : durable;
            }
            if (valid < data.length) {
                node.log(30, "Found invalid messages in log segment " + name + " at byte offset " + valid
                    + ": truncated " + (data.length - valid) + " bytes");
                long size = valid;
                files.ofLog(told -> files.disk().truncate(told, segment.name(), size));
                corrupt = true;
            }
            segment.bytes = valid;
            segments.put(segment.base, segment);
        }
        if (segments.isEmpty()) {
            addSegment(0);
        }
        Segment active = segments.lastEntry().getValue();
        int count = active.entries.size();
        end = count == 0 ? active.base : active.entries.get(count - 1).last + 1;
        durable = Math.min(durable, end);
        epochs.values().removeIf(from -> from >= end);
        highWatermark = start;
    }

    /** Take over the sound batches of a segment; how many bytes they are. */
    private int recover(Segment segment, byte[] data) {
        int position = 0;
        while (position + HEAD <= data.length) {
            int size = ByteBuffer.wrap(data).getInt(position + LENGTH_AT) + HEAD;
            if (size < DefaultRecordBatch.RECORD_BATCH_OVERHEAD || size > data.length - position) {
                break;
            }
            byte[] one = Arrays.copyOfRange(data, position, position + size);
            MutableRecordBatch batch;
            try {
                batch = MemoryRecords.readableRecords(ByteBuffer.wrap(one)).batches().iterator().next();
                batch.ensureValid();
            } catch (RuntimeException e) {
                break;
            }
            segment.entries.add(
                new Entry(batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(), one));
            assign(batch.partitionLeaderEpoch(), batch.baseOffset());
            position += size;
        }
        return position;
    }

    private void recoverSnapshots() {
        TreeSet<String> unneeded = new TreeSet<>();
        for (String name : files.list()) {
            int mark = name.indexOf(".checkpoint");
            if (mark < 31) {
                continue;
            }
            OffsetAndEpoch id = new OffsetAndEpoch(
                Long.parseLong(name.substring(0, 20)), Integer.parseInt(name.substring(21, 31)));
            if (name.length() > mark + ".checkpoint".length() || TraceId.offset(id) < start) {
                unneeded.add(name);
            } else {
                snapshots.put(id, Optional.empty());
            }
        }
        if (start > 0 && (snapshots.isEmpty() || TraceId.offset(snapshots.lastKey()) < start)) {
            throw new IllegalStateException("Inconsistent snapshot state: there must be a snapshot "
                + "at an offset larger then the current log start offset " + start + ", but the "
                + "latest snapshot is " + (snapshots.isEmpty() ? "None" : snapshots.lastKey()));
        }
        for (String name : unneeded) {
            files.ofFile(told -> files.disk().unlink(told, name));
        }
    }

    // ------------------------------------------------------------------ where it stands

    @Override
    public LogOffsetMetadata endOffset() {
        return new LogOffsetMetadata(end);
    }

    @Override
    public LogOffsetMetadata highWatermark() {
        return new LogOffsetMetadata(highWatermark);
    }

    @Override
    public long end() {
        return end;
    }

    @Override
    public long startOffset() {
        return start;
    }

    @Override
    public long committed() {
        return highWatermark;
    }

    @Override
    public long flushed() {
        return durable;
    }

    @Override
    public Iterable<OffsetAndEpoch> snapshotIds() {
        return snapshots.keySet();
    }

    @Override
    public int lastFetchedEpoch() {
        if (!epochs.isEmpty()) {
            return epochs.lastKey();
        }
        Optional<OffsetAndEpoch> latest = latestSnapshotId();
        if (latest.isEmpty()) {
            return 0;
        }
        OffsetAndEpoch id = latest.get();
        if (TraceId.offset(id) == start && TraceId.offset(id) == end) {
            return TraceId.epoch(id);
        }
        throw new KafkaException("Log doesn't have a last fetch epoch and there is a snapshot (" + id + "). "
            + "Expected the snapshot's end offset to match the log's end offset (" + end + ") "
            + "and the log start offset (" + start + ")");
    }

    @Override
    public OffsetAndEpoch endOffsetForEpoch(int epoch) {
        OffsetAndEpoch found = cachedEnd(epoch);
        if (found == null) {
            return new OffsetAndEpoch(end, lastFetchedEpoch());
        }
        Optional<OffsetAndEpoch> earliest = earliestSnapshotId();
        if (earliest.isPresent() && TraceId.offset(found) == TraceId.offset(earliest.get()) && TraceId.epoch(found) == epoch) {
            return earliest.get();
        }
        return found;
    }

    private OffsetAndEpoch cachedEnd(int epoch) {
        if (!epochs.isEmpty() && epochs.lastKey() == epoch) {
            return new OffsetAndEpoch(end, epoch);
        }
        Map.Entry<Integer, Long> higher = epochs.higherEntry(epoch);
        if (higher == null) {
            return null;
        }
        Integer floor = epochs.floorKey(epoch);
        return new OffsetAndEpoch(higher.getValue(), floor == null ? epoch : floor);
    }

    @Override
    public TopicPartition topicPartition() {
        return new TopicPartition("__cluster_metadata", 0);
    }

    @Override
    public Uuid topicId() {
        return Uuid.METADATA_TOPIC_ID;
    }

    // ------------------------------------------------------------------ reading

    /** As LocalLog.read: of one segment, and of one before that of the limit all that it has. */
    @Override
    public LogFetchInfo read(long offset, Isolation isolation, int maxBytes) {
        if (offset > end || offset < start) {
            throw new OffsetOutOfRangeException("Received request for offset " + offset
                + ", but we only have log segments in the range " + start + " to " + end + ".");
        }
        long limit = isolation == Isolation.COMMITTED ? highWatermark : end;
        if (offset >= limit) {
            return new LogFetchInfo(MemoryRecords.EMPTY, new LogOffsetMetadata(limit));
        }
        Segment segment = holding(offset);
        int first = segment.place(offset);
        if (first == segment.entries.size()) { // all behind the offset was cut off
            return new LogFetchInfo(MemoryRecords.EMPTY, new LogOffsetMetadata(end));
        }
        Segment last = limit == end ? segments.lastEntry().getValue() : holding(limit);
        int size = 0;
        int next = first;
        while (segment.base <= last.base && next < segment.entries.size()
            && (segment != last || segment.entries.get(next).last < limit)) {
            int more = segment.entries.get(next).data.length;
            if (size > 0 && size + more > maxBytes) {
                break;
            }
            size += more;
            next++;
        }
        if (next == first) { // the limit lies within a batch
            return new LogFetchInfo(MemoryRecords.EMPTY, new LogOffsetMetadata(offset));
        }
        ByteBuffer found;
        if (next == first + 1) {
            found = ByteBuffer.wrap(segment.entries.get(first).data);
        } else {
            found = ByteBuffer.allocate(size);
            for (Entry entry : segment.entries.subList(first, next)) {
                found.put(entry.data);
            }
            found.flip();
        }
        return new LogFetchInfo(
            MemoryRecords.readableRecords(found), new LogOffsetMetadata(segment.entries.get(first).base));
    }

    /** The segment that begins at the offset or before it, or a later one if that ends before it. */
    private Segment holding(long offset) {
        Map.Entry<Long, Segment> found = segments.floorEntry(offset);
        while (found.getValue().place(offset) == found.getValue().entries.size()) {
            Map.Entry<Long, Segment> higher = segments.higherEntry(found.getKey());
            if (higher == null) {
                break;
            }
            found = higher;
        }
        return found.getValue();
    }

    @Override
    public long controlsBefore(long offset, long floor) {
        long begin = offset;
        while (begin > Math.max(floor, start)) {
            Segment segment = holding(begin - 1);
            Entry before = segment.entries.get(segment.place(begin - 1));
            if (!before.isControl()) {
                break;
            }
            begin = before.base;
        }
        return begin;
    }

    // ------------------------------------------------------------------ writing

    @Override
    public LogAppendInfo appendAsLeader(Records records, int epoch) {
        return append((MemoryRecords) records, epoch, true);
    }

    @Override
    public LogAppendInfo appendAsFollower(Records records, int epoch) {
        return append((MemoryRecords) records, epoch, false);
    }

    private LogAppendInfo append(MemoryRecords records, int epoch, boolean leads) {
        if (records.sizeInBytes() == 0) {
            throw new IllegalArgumentException("Attempt to append an empty record set");
        }
        List<Entry> found = new ArrayList<>();
        long next = end;
        for (MutableRecordBatch batch : records.batches()) {
            if (leads && batch.partitionLeaderEpoch() != epoch) {
                throw new IllegalArgumentException("Attempt to append a batch of epoch "
                    + batch.partitionLeaderEpoch() + " in epoch " + epoch);
            }
            if (!leads && batch.partitionLeaderEpoch() > epoch) {
                break; // as UnifiedLog: a batch of a newer epoch, and all behind it, is left out
            }
            if (!batch.isValid()) {
                throw new CorruptRecordException("Record is corrupt (stored crc = " + batch.checksum() + ")");
            }
            if (batch.baseOffset() < next) {
                throw new KafkaException("Unexpected offset in append to the metadata log: first offset "
                    + batch.baseOffset() + " is less than the next offset " + next);
            }
            ByteBuffer buffer = ByteBuffer.allocate(batch.sizeInBytes());
            batch.writeTo(buffer);
            found.add(new Entry(
                batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(), buffer.array()));
            next = batch.lastOffset() + 1;
        }
        if (found.isEmpty()) {
            throw new CorruptRecordException("Append failed unexpectedly: no batch of the present epoch");
        }
        byte[] data = joined(found);
        roll(data.length);
        Segment active = segments.lastEntry().getValue();
        files.ofLog(told -> files.disk().append(told, active.name(), data));
        active.bytes += data.length;
        for (Entry entry : found) {
            assign(entry.epoch, entry.base);
            active.entries.add(entry);
            end = entry.last + 1;
            tellAppended(entry, leads);
        }
        return new LogAppendInfo(found.get(0).base, end - 1);
    }

    private void tellAppended(Entry entry, boolean leads) {
        ByteBuffer head = ByteBuffer.wrap(entry.data);
        node.event("append")
            .put("base", entry.base)
            .put("last", entry.last)
            .put("bep", entry.epoch)
            .put("h", Integer.toUnsignedLong(head.getInt(17)))
            .put("ctl", entry.isControl())
            .put("src", leads ? "leader" : "follower")
            .end();
    }

    private static byte[] joined(List<Entry> found) {
        if (found.size() == 1) {
            return found.get(0).data;
        }
        ByteBuffer all = ByteBuffer.allocate(found.stream().mapToInt(entry -> entry.data.length).sum());
        found.forEach(entry -> all.put(entry.data));
        return all.array();
    }

    /**
     * Begin another segment where the last one is full. UnifiedLog has a thread fsync the full one then, lest a
     * loss of power leave the next one without its end; here that is done before anything else.
     */
    private void roll(int more) {
        Segment active = segments.lastEntry().getValue();
        if (active.bytes > 0 && active.bytes + more > segmentBytes) {
            if (end > recoveryPoint) {
                flushBelow(end);
            }
            addSegment(end);
        }
    }

    private void addSegment(long base) {
        Segment segment = new Segment(base);
        files.ofLog(told -> files.disk().create(told, segment.name()));
        segments.put(base, segment);
    }

    private void assign(int epoch, long offset) {
        if (!epochs.isEmpty() && epochs.lastKey() >= epoch) {
            return;
        }
        while (!epochs.isEmpty() && epochs.lastEntry().getValue() >= offset) {
            epochs.pollLastEntry();
        }
        epochs.put(epoch, offset);
    }

    @Override
    public void initializeLeaderEpoch(int epoch) {
        assign(epoch, end);
    }

    @Override
    public void flush(boolean forceFlushActiveSegment) {
        if (end <= recoveryPoint && !forceFlushActiveSegment) {
            return;
        }
        node.beforeFsync();
        flushBelow(forceFlushActiveSegment ? end + 1 : end);
    }

    /** Fsync all segments that begin below an offset, from the recovery point on. */
    private void flushBelow(long below) {
        boolean isNew = false;
        Long first = segments.floorKey(recoveryPoint);
        for (Segment segment : segments.subMap(first == null ? 0L : first, below).values()) {
            files.ofLog(told -> files.disk().fsync(told, segment.name()));
            isNew |= segment.base >= recoveryPoint;
        }
        if (isNew) {
            files.ofLog(told -> files.disk().fsyncNames(told));
        }
        if (end > recoveryPoint) {
            recoveryPoint = durable = end;
            node.event("flush").put("upto", end).end();
        }
    }

    @Override
    public void updateHighWatermark(LogOffsetMetadata metadata) {
        long wanted = Math.max(start, Math.min(end, TraceOffset.of(metadata)));
        if (!knowsHighWatermark || wanted != highWatermark) {
            knowsHighWatermark = true;
            highWatermark = wanted;
            node.teller.highWatermark(wanted);
        }
    }

    // ------------------------------------------------------------------ cutting

    @Override
    public void truncateTo(long offset) {
        if (offset < highWatermark) {
            throw new IllegalArgumentException("Attempt to truncate to offset " + offset
                + ", which is below the current high watermark " + highWatermark);
        }
        epochs.values().removeIf(from -> from >= offset);
        if (offset >= end) {
            return;
        }
        node.event("trunc").put("to", offset).put("was", end).put("why", "diverged").end();
        if (segments.firstKey() > offset) {
            restartAt(offset);
            return;
        }
        for (Segment segment : new ArrayList<>(segments.tailMap(offset, false).values())) {
            remove(segment);
        }
        Segment active = segments.lastEntry().getValue();
        List<Entry> cut = active.entries.subList(active.place(offset), active.entries.size());
        if (!cut.isEmpty()) {
            long size = active.bytes - cut.stream().mapToLong(entry -> entry.data.length).sum();
            files.ofLog(told -> files.disk().truncate(told, active.name(), size));
            active.bytes = size;
            cut.clear();
        }
        end = offset;
        recoveryPoint = Math.min(recoveryPoint, end);
        durable = Math.min(durable, end);
        start = Math.min(start, end);
    }

    @Override
    public boolean truncateToLatestSnapshot() {
        return truncateToLatestSnapshot(true);
    }

    private boolean truncateToLatestSnapshot(boolean runs) {
        Optional<OffsetAndEpoch> latest = latestSnapshotId();
        int epoch = epochs.isEmpty() ? 0 : epochs.lastKey();
        if (latest.isEmpty()) {
            return false;
        }
        OffsetAndEpoch id = latest.get();
        if (TraceId.epoch(id) < epoch || (TraceId.epoch(id) == epoch && TraceId.offset(id) <= end)) {
            return false;
        }
        restartAt(TraceId.offset(id));
        if (runs) {
            node.tellSnapshot("install", id, bytesOf(id));
            node.event("lstart").put("v", start).end();
        }
        forget(id);
        return true;
    }

    private void restartAt(long offset) {
        for (Segment segment : new ArrayList<>(segments.values())) {
            remove(segment);
        }
        epochs.clear();
        addSegment(offset);
        start = end = highWatermark = durable = offset;
        recoveryPoint = Math.min(recoveryPoint, offset);
    }

    private void remove(Segment segment) {
        files.ofLog(told -> files.disk().unlink(told, segment.name()));
        segments.remove(segment.base);
    }

    @Override
    public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
        Optional<OffsetAndEpoch> latest = latestSnapshotId();
        if (latest.isEmpty() || !snapshots.containsKey(id) || start >= TraceId.offset(id)
            || TraceId.offset(id) > TraceId.offset(latest.get())) {
            return false;
        }
        if (TraceId.offset(id) > highWatermark) {
            throw new OffsetOutOfRangeException("Cannot increment the log start offset to " + TraceId.offset(id)
                + " since it is larger than the high watermark " + highWatermark);
        }
        start = TraceId.offset(id);
        node.event("lstart").put("v", start).end();
        Map.Entry<Integer, Long> floor = null;
        while (!epochs.isEmpty() && epochs.firstEntry().getValue() <= start) {
            floor = epochs.pollFirstEntry();
        }
        if (floor != null) {
            epochs.put(floor.getKey(), start);
        }
        while (segments.size() > 1 && segments.higherKey(segments.firstKey()) <= start) {
            remove(segments.firstEntry().getValue());
        }
        forget(id);
        return true;
    }

    @Override
    public boolean maybeClean() {
        boolean cleaned = false;
        while (snapshots.size() > 1 && isToClean(snapshots.firstKey())) {
            if (!deleteBeforeSnapshot(snapshots.higherKey(snapshots.firstKey()))) {
                break;
            }
            cleaned = true;
        }
        return cleaned;
    }

    private boolean isToClean(OffsetAndEpoch oldest) {
        if (retentionBytes >= 0) {
            long size = segments.values().stream().mapToLong(segment -> segment.bytes).sum();
            for (OffsetAndEpoch id : snapshots.keySet()) {
                size += bytesOf(id).length;
            }
            if (size > retentionBytes) {
                return true;
            }
        }
        if (retentionMs < 0) {
            return false;
        }
        return time.milliseconds() - lastContained(bytesOf(oldest)) > retentionMs;
    }

    /** When the last record was written that a snapshot contains: its header says so. */
    private static long lastContained(byte[] snapshot) {
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(snapshot)).batches()) {
            for (Record record : batch) {
                if (batch.isControlBatch()
                    && ControlRecordType.parse(record.key()) == ControlRecordType.SNAPSHOT_HEADER) {
                    return header(record).lastContainedLogTimestamp();
                }
            }
        }
        throw new IllegalStateException("a snapshot without a header");
    }

    private static SnapshotHeaderRecord header(Record record) {
        return new SnapshotHeaderRecord(
            new ByteBufferAccessor(record.value()), SnapshotHeaderRecord.HIGHEST_SUPPORTED_VERSION);
    }

    // ------------------------------------------------------------------ snapshots

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshot(OffsetAndEpoch id) {
        if (TraceId.offset(id) < start) {
            return Optional.empty();
        }
        if (TraceId.offset(id) > highWatermark) {
            throw new IllegalArgumentException("Cannot create a snapshot with an id (" + id
                + ") greater than the high-watermark (" + highWatermark + ")");
        }
        ValidOffsetAndEpoch valid = validateOffsetAndEpoch(TraceId.offset(id), TraceId.epoch(id));
        if (valid.kind() != ValidOffsetAndEpoch.Kind.VALID) {
            throw new IllegalArgumentException("Snapshot id (" + id + ") is not valid according to the log: " + valid);
        }
        long base = TraceOffset.of(read(TraceId.offset(id), Isolation.COMMITTED, 1).startOffsetMetadata);
        if (base != TraceId.offset(id)) {
            throw new IllegalArgumentException("Cannot create snapshot at offset (" + TraceId.offset(id)
                + ") because it is not batch aligned. The batch containing the requested offset has a base offset of ("
                + base + ")");
        }
        return writer(id, true);
    }

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id) {
        return writer(id, false);
    }

    private Optional<RawSnapshotWriter> writer(OffsetAndEpoch id, boolean isOwn) {
        if (snapshots.containsKey(id)) {
            return Optional.empty();
        }
        return Optional.of(new Writer(id, stem(id) + "-" + (++parts) + ".checkpoint.part", isOwn));
    }

    @Override
    public void onSnapshotFrozen(OffsetAndEpoch id) {
        snapshots.put(id, Optional.empty());
    }

    @Override
    public Optional<RawSnapshotReader> readSnapshot(OffsetAndEpoch id) {
        if (!snapshots.containsKey(id)) {
            return Optional.empty();
        }
        byte[] data = bytesOf(id);
        if (data == null) {
            snapshots.remove(id);
            return Optional.empty();
        }
        return Optional.of(new Reader(id, data));
    }

    private byte[] bytesOf(OffsetAndEpoch id) {
        Optional<byte[]> known = snapshots.get(id);
        if (known.isPresent()) {
            return known.get();
        }
        byte[] data = files.read(stem(id) + ".checkpoint");
        if (data != null) {
            snapshots.put(id, Optional.of(data));
        }
        return data;
    }

    @Override
    public Optional<RawSnapshotReader> latestSnapshot() {
        return latestSnapshotId().flatMap(this::readSnapshot);
    }

    @Override
    public Optional<OffsetAndEpoch> latestSnapshotId() {
        return snapshots.isEmpty() ? Optional.empty() : Optional.of(snapshots.lastKey());
    }

    @Override
    public Optional<OffsetAndEpoch> earliestSnapshotId() {
        return snapshots.isEmpty() ? Optional.empty() : Optional.of(snapshots.firstKey());
    }

    /** Remove the snapshots before one; Kafka renames them first, and removes them a minute later. */
    private void forget(OffsetAndEpoch id) {
        for (OffsetAndEpoch old : new ArrayList<>(snapshots.headMap(id).keySet())) {
            byte[] data = bytesOf(old);
            snapshots.remove(old);
            files.ofFile(told -> files.disk().unlink(told, stem(old) + ".checkpoint"));
            node.tellSnapshot("delete", old, data);
        }
    }

    static String stem(OffsetAndEpoch id) {
        return String.format("%020d-%010d", TraceId.offset(id), TraceId.epoch(id));
    }

    /** A snapshot that is being written, as FileRawSnapshotWriter does it. */
    private final class Writer implements RawSnapshotWriter {
        private final OffsetAndEpoch id;
        private final String part;
        private long size;
        private final boolean isOwn;
        private boolean isFrozen;
        private boolean isClosed;

        Writer(OffsetAndEpoch id, String part, boolean isOwn) {
            this.id = id;
            this.isOwn = isOwn;
            this.part = part;
            files.ofFile(told -> files.disk().create(told, part));
        }

        @Override
        public OffsetAndEpoch snapshotId() {
            return id;
        }

        @Override
        public long sizeInBytes() {
            return size;
        }

        @Override
        public void append(MemoryRecords records) {
            append(records.buffer());
        }

        @Override
        public void append(UnalignedMemoryRecords records) {
            append(records.buffer());
        }

        private void append(ByteBuffer buffer) {
            if (isFrozen) {
                throw new IllegalStateException("Append is not supported. Snapshot is already frozen: id = " + id);
            }
            byte[] data = new byte[buffer.remaining()];
            buffer.get(data);
            files.ofFile(told -> files.disk().append(told, part, data));
            size += data.length;
        }

        @Override
        public boolean isFrozen() {
            return isFrozen;
        }

        @Override
        public void freeze() {
            if (isFrozen) {
                throw new IllegalStateException("Freeze is not supported. Snapshot is already frozen: id = " + id);
            }
            isFrozen = true;
            SimFrozen.beforeRename(files, part);
            files.ofFile(told -> files.disk().rename(told, part, stem(id) + ".checkpoint"));
            files.ofFile(told -> files.disk().fsyncNames(told));
            onSnapshotFrozen(id);
            if (isOwn) {
                node.tellSnapshot("freeze", id, bytesOf(id));
            }
        }

        @Override
        public void close() {
            if (!isFrozen && !isClosed) {
                files.ofFile(told -> files.disk().unlink(told, part));
            }
            isClosed = true;
        }
    }

    /** A snapshot as it was when it was opened. */
    private record Reader(OffsetAndEpoch snapshotId, byte[] data) implements RawSnapshotReader {
        @Override
        public long sizeInBytes() {
            return data.length;
        }

        @Override
        public UnalignedRecords slice(long position, int size) {
            if (position < 0 || size < 0) { // as a file's slice
                throw new IllegalArgumentException("Invalid position or size: " + position + ", " + size);
            }
            int from = (int) Math.min(position, data.length);
            return new UnalignedMemoryRecords(
                ByteBuffer.wrap(data, from, Math.min(size, data.length - from)).slice());
        }

        @Override
        public Records records() {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(data));
        }
    }
}
