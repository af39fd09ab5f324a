package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Tells of the images that MetadataLoader publishes, as records: the first of a process, each that comes from a
 * snapshot or goes into one, and otherwise one in a while, for an image is written out whole.
 */
final class TraceImages {
    static final long EVERY_NS = 250_000_000;

    /** The node that has them. */
    interface Node {
        long nanoseconds();

        TraceEvents event(String type);

        /** Take an image over, as the records that it is written as; it has all below {@code end}. */
        void take(boolean isFull, long end, byte[] records);
    }

    private final Node node;
    private final TraceDeltas deltas = new TraceDeltas();
    private boolean isFirst = true;
    private long nextNs;
    private long toldEnd;

    TraceImages(Node node) {
        this.node = node;
    }

    /** An image was published, which comes from a snapshot or not. */
    void published(MetadataDelta delta, MetadataImage image, boolean isWhole) {
        deltas.follow(delta, image);
        long now = node.nanoseconds();
        boolean isFull = isFirst || isWhole;
        if (!isFull && now < nextNs) {
            return;
        }
        isFirst = false;
        rest(now, EVERY_NS);
        tell(image, isFull);
    }

    /** Tell of no other image, unless it is a full one, until so long after that time. */
    void rest(long sinceNs, long ns) {
        nextNs = sinceNs + ns;
    }

    /** A snapshot up to that offset was made: tell of its image, if nobody has, and it is still the newest. */
    void frozen(MetadataImage newest, long end) {
        if (end == end(newest) && end != toldEnd) {
            tell(newest, false);
        }
    }

    private static long end(MetadataImage image) {
        return TraceId.offset(image.highestOffsetAndEpoch()) + 1;
    }

    private void tell(MetadataImage image, boolean isFull) {
        toldEnd = end(image);
        node.event("delta").put("off", toldEnd).texts("wrong", deltas.differences(image)).end();
        List<byte[]> values = new ArrayList<>();
        for (ApiMessageAndVersion record : TraceWritten.records(image)) {
            values.add(bytes(record));
        }
        node.take(isFull, toldEnd, TracePacked.of(values));
    }

    private static byte[] bytes(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }
}
