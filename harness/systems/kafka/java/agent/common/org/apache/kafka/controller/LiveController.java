package org.apache.kafka.controller;

import org.apache.kafka.raft.LiveHooks;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Tells of a live node's controller. */
public final class LiveController {
    private LiveController() {
    }

    /** A request is about to be answered. */
    public static void acknowledges(String name, Object result) {
        LiveHooks.tell("ack", node -> node.ack(name, ((ControllerResultAndOffset<?>) result).offset()));
    }

    public static void claims(int epoch, Object offsets) {
        LiveHooks.tell("claim", node -> node.claim(epoch, committed(offsets)));
    }

    /** It is active no more; changes that are not committed may still be its own. */
    public static void renounces(int epoch, Object offsets, Object changes) {
        LiveHooks.tell("renounce", node -> {
            long stable = ((OffsetControlManager) offsets).lastStableOffset();
            long kept = ((SnapshotRegistry) changes).epochsList().stream().filter(offset -> offset > stable).count();
            node.renounce(epoch, committed(offsets), (int) kept);
        });
    }

    /** Where the last batch with data ends, or the snapshot that was loaded since. */
    private static long committed(Object offsets) {
        return ((OffsetControlManager) offsets).lastCommittedOffset() + 1;
    }
}
