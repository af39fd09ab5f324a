package org.apache.kafka.raft;

import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.MetadataImage;

/**
 * Compares now and then what a live node's controller has in memory with the image that its loader publishes. Each
 * has a thread of its own: what the controller has is copied there, and waits for the image of the same offset.
 */
public final class LiveMemory {
    private static final int SHARE = 20; // one part in so many of the controller's time may go into this
    private static final AtomicReference<Copy> WAITS = new AtomicReference<>();
    private static volatile MetadataImage newest;
    private static LiveMemory only; // of the controller's thread

    private final TraceMemory memory;
    private final TraceOffsets offsets;
    private final RaftClient<?> client;
    private long nextNs = System.nanoTime();

    /** What a controller had in memory when all up to an offset was applied, and nothing else. */
    private record Copy(long offset, TraceMemory.Taken taken) {
        void tell(LiveNode node, List<String> wrong) {
            node.event("memory").put("off", offset + 1).texts("wrong", wrong).end();
        }
    }

    private LiveMemory(QuorumController controller) {
        memory = new TraceMemory(controller);
        offsets = new TraceOffsets(controller);
        client = (RaftClient<?>) TraceInside.get(controller, "raftClient");
    }

    /** The controller has handled what came from its log. */
    public static void handled(Object controller) {
        LiveHooks.tell("memory", node -> {
            if (only == null) {
                only = new LiveMemory((QuorumController) controller);
            }
            only.copy(node, ((QuorumController) controller).isActive());
        });
    }

    private void copy(LiveNode node, boolean isActive) {
        long now = System.nanoTime();
        if (now < nextNs) {
            return;
        }
        long offset = offsets.settled(isActive);
        if (offset < 0 || TraceLoaded.isJust(client, offset)) {
            return;
        }
        nextNs = now + TraceImages.EVERY_NS;
        Copy before = WAITS.getAndSet(new Copy(offset, memory.taken()));
        if (before != null) {
            passed(node, before);
        }
        nextNs = Math.max(nextNs, now + SHARE * (System.nanoTime() - now));
        MetadataImage image = newest;
        if (image != null) {
            compare(node, image);
        }
    }

    /** The loader has published an image. */
    static void published(LiveNode node, MetadataImage image) {
        newest = image;
        compare(node, image);
    }

    /** Compare the copy that waits, if this is its image; if its offset has gone by, tell of the indexes alone. */
    private static void compare(LiveNode node, MetadataImage image) {
        Copy copy = WAITS.get();
        long end = image.highestOffsetAndEpoch().offset();
        if (copy == null || end < copy.offset || !WAITS.compareAndSet(copy, null)) {
            return;
        }
        if (end == copy.offset) {
            copy.tell(node, copy.taken.differences(image));
        } else {
            passed(node, copy);
        }
    }

    /** No image has the copy's offset. */
    private static void passed(LiveNode node, Copy copy) {
        if (!copy.taken.wrongIndexes().isEmpty()) {
            copy.tell(node, copy.taken.wrongIndexes());
        }
    }
}
