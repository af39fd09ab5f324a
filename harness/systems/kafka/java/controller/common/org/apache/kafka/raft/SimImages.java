package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;

import krucible.Kinds;

/** Keeps what a node shows, the images that MetadataLoader publishes, and hands them on to Python. */
final class SimImages implements SimPublisher, TraceImages.Node {
    private final SimReplica node;
    private final TraceImages told = new TraceImages(this);
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
    public void published(MetadataDelta delta, MetadataImage image, boolean isWhole) {
        newest = image;
        first.complete(image);
        told.published(delta, image, isWhole);
    }

    /** A snapshot up to that offset was made. */
    void frozen(long end) {
        told.frozen(newest, end);
    }

    @Override
    public long nanoseconds() {
        return node.clock.nanoseconds();
    }

    @Override
    public TraceEvents event(String type) {
        return node.event(type);
    }

    @Override
    public void take(boolean isFull, long end, byte[] records) {
        node.put(Kinds.IMAGE, isFull ? 1 : 0, node.epoch(), end, (short) 0, records);
    }
}
