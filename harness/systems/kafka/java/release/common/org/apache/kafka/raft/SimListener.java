package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.snapshot.SnapshotReader;
import org.apache.kafka.snapshot.SnapshotWriter;

import krucible.Kinds;

/** Hands what commits, snapshots and leaders on to a state machine in Python; records are bytes. */
final class SimListener implements SimHearer<byte[]>, SimMachine<byte[]> {
    /** Records as they are. */
    static final RecordSerde<byte[]> SERDE = new RecordSerde<>() {
        @Override
        public int recordSize(byte[] data, ObjectSerializationCache cache) {
            return data.length;
        }

        @Override
        public void write(byte[] data, ObjectSerializationCache cache, Writable out) {
            out.writeByteArray(data);
        }

        @Override
        public byte[] read(Readable input, int size) {
            return input.readArray(size);
        }
    };

    private final SimReplica node;
    private long timestampMs; // of the last batch
    private KafkaRaftClient<byte[]> client;
    private LeaderAndEpoch told; // last

    SimListener(SimReplica node) {
        this.node = node;
    }

    @Override
    public RecordSerde<byte[]> serde() {
        return SERDE;
    }

    @Override
    public void open(KafkaRaftClient<byte[]> client) {
        this.client = client;
        client.register(this);
    }

    /** Append records; the offset of the last. */
    long append(int epoch, List<byte[]> values) {
        return SimAsked.append(client, epoch, values);
    }

    void snapshot(OffsetAndEpoch id, List<byte[]> values) {
        Optional<SnapshotWriter<byte[]>> made = SimMade.snapshot(client, id, timestampMs);
        if (made.isEmpty()) {
            return;
        }
        try (SnapshotWriter<byte[]> writer = made.get()) {
            if (!values.isEmpty()) {
                writer.append(values);
            }
            writer.freeze();
        }
    }

    @Override
    public void handleCommit(BatchReader<byte[]> reader) {
        try (reader) {
            while (reader.hasNext()) {
                Batch<byte[]> batch = reader.next();
                // releases before 3.6 hand over no control batches: they are applied with what follows them
                long begin = node.controlsBefore(batch.baseOffset());
                long applied = node.applied = batch.lastOffset() + 1;
                node.event("apply").put("off", applied).put("n", applied - begin).end();
                int offsets = (int) (applied - batch.baseOffset());
                timestampMs = batch.appendTimestamp();
                byte[] values = TracePacked.of(batch.records());
                byte[] sized = ByteBuffer.allocate(4 + values.length).putInt(batch.sizeInBytes()).put(values).array();
                node.put(Kinds.COMMITTED, offsets, batch.epoch(), batch.baseOffset(), (short) 0, sized);
            }
        }
    }

    @Override
    public void handleLoadSnapshot(SnapshotReader<byte[]> reader) {
        try (reader) {
            List<byte[]> values = new ArrayList<>();
            while (reader.hasNext()) {
                values.addAll(reader.next().records());
            }
            OffsetAndEpoch id = reader.snapshotId();
            node.applied = TraceId.offset(id);
            node.put(Kinds.LOADED, 0, TraceId.epoch(id), TraceId.offset(id), (short) 0, TracePacked.of(values));
        }
    }

    /** The bootstrap snapshot, which some releases hand over apart. */
    public void handleLoadBootstrap(SnapshotReader<byte[]> reader) {
        handleLoadSnapshot(reader);
    }

    @Override
    public void handleLeaderChange(LeaderAndEpoch leader) {
        told = leader;
        node.tellLeader(leader);
    }

    /**
     * Look whom the client follows, as Kafka's server does that says who leads. A listener of the first releases
     * never hears of a leader that was followed before it was registered (KAFKA-16286).
     */
    @Override
    public void afterPoll() {
        LeaderAndEpoch leader = client.leaderAndEpoch();
        boolean isAnother = leader.leaderId().isPresent() && !leader.isLeader(node.id);
        if (isAnother && !leader.equals(told)) {
            handleLeaderChange(leader);
        }
    }

    @Override
    public String toString() {
        return "the state machine of node " + node.id;
    }

    static List<byte[]> unpacked(byte[] data) {
        ByteBuffer in = ByteBuffer.wrap(data);
        List<byte[]> values = new ArrayList<>();
        while (in.hasRemaining()) {
            byte[] value = new byte[in.getInt()];
            in.get(value);
            values.add(value);
        }
        return values;
    }
}
