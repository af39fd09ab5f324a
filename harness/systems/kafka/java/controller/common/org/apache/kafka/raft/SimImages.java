package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.loader.LoaderManifestType;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import krucible.Kinds;

/**
 * Hands the images that MetadataLoader publishes on to Python, as records: the first of a process, each that
 * comes from a snapshot or goes into one, and otherwise one in a while, for an image is written out whole.
 */
final class SimImages implements MetadataPublisher {
    private static final long EVERY_NS = 250_000_000;

    private final SimReplica node;
    private final SimDeltas deltas = new SimDeltas();
    private boolean isFirst = true;
    private long toldNs;
    private long toldEnd;
    private final CompletableFuture<MetadataImage> first = new CompletableFuture<>();
    private MetadataImage newest = MetadataImage.EMPTY;

    SimImages(SimReplica node) {
        this.node = node;
    }

    /** What the node shows. */
    MetadataImage newest() {
        return newest;
    }

    /** An answer from what the node shows: a broker serves nobody before it has an image. */
    CompletableFuture<ApiMessage> shown(Function<MetadataImage, ApiMessage> answer) {
        return first.thenApply(image -> answer.apply(newest));
    }

    @Override
    public String name() {
        return "Images";
    }

    @Override
    public void onMetadataUpdate(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
        newest = image;
        deltas.follow(delta, image);
        first.complete(image);
        boolean isWhole = manifest.type() == LoaderManifestType.SNAPSHOT;
        long now = node.clock.nanoseconds();
        boolean isFull = isFirst || isWhole;
        if (!isFull && now - toldNs < EVERY_NS) {
            return;
        }
        isFirst = false;
        toldNs = now;
        tell(image, isFull);
    }

    /** A snapshot up to that offset was made: tell of its image, if nobody has, and it is still the newest. */
    void frozen(long end) {
        if (end == newest.highestOffsetAndEpoch().offset() + 1 && end != toldEnd) {
            tell(newest, false);
        }
    }

    private void tell(MetadataImage image, boolean isFull) {
        toldEnd = image.highestOffsetAndEpoch().offset() + 1;
        node.event("delta").put("off", image.highestOffsetAndEpoch().offset() + 1)
            .texts("wrong", deltas.differences(image)).end();
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, SimFeatures.written(image));
        List<byte[]> values = new ArrayList<>();
        for (ApiMessageAndVersion record : writer.records()) {
            values.add(bytes(record));
        }
        node.put(Kinds.IMAGE, isFull ? 1 : 0, node.epoch(), image.highestOffsetAndEpoch().offset() + 1, (short) 0,
            SimListener.packed(values));
    }

    private static byte[] bytes(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }
}
