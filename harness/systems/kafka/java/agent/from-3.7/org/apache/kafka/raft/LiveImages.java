package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Base64;
import java.util.zip.DeflaterOutputStream;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.loader.LoaderManifestType;

/**
 * Tells of the images that a live node publishes: as records, deflated and in Base64. The harness puts our
 * digest in their place.
 */
public final class LiveImages implements TraceImages.Node {
    private static final int SHARE = 20; // one part in so many of the time may go into this
    private static LiveImages only; // of the loader's thread

    private final LiveNode node;
    private final TraceImages told = new TraceImages(this);

    private LiveImages(LiveNode node) {
        this.node = node;
    }

    /** MetadataLoader has published an image. */
    public static void published(Object delta, Object image, Object manifest) {
        LiveHooks.tell("image", node -> {
            if (only == null) {
                only = new LiveImages(node);
            }
            LiveMemory.published(node, (MetadataImage) image);
            only.published((MetadataDelta) delta, (MetadataImage) image, (LoaderManifest) manifest);
        });
    }

    private void published(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
        long began = nanoseconds();
        told.published(delta, image, manifest.type() == LoaderManifestType.SNAPSHOT);
        long took = nanoseconds() - began;
        if (took * SHARE > TraceImages.EVERY_NS) {
            told.rest(began, took * SHARE);
        }
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public TraceEvents event(String type) {
        return node.event(type);
    }

    @Override
    public void take(boolean isFull, long end, byte[] records) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (DeflaterOutputStream deflated = new DeflaterOutputStream(out)) {
            deflated.write(records);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        node.event("image").put("off", end).put("kind", isFull ? "full" : "delta")
            .put("records", Base64.getEncoder().encodeToString(out.toByteArray())).end();
    }
}
