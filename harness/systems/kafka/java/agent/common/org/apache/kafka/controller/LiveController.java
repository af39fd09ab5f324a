package org.apache.kafka.controller;

import org.apache.kafka.deferred.DeferredEvent;
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

    public static void claims(Object controller, int epoch) {
        LiveHooks.tell("claim", node -> node.claim(epoch, LiveCommitted.end(controller)));
    }

    /** It is active no more; changes that are not committed may still be its own. */
    public static void renounces(Object controller, int epoch, Object changes) {
        LiveHooks.tell("renounce", node -> {
            long stable = LiveCommitted.stable(controller);
            long kept = ((SnapshotRegistry) changes).epochsList().stream().filter(offset -> offset > stable).count();
            node.renounce(epoch, LiveCommitted.end(controller), (int) kept);
        });
    }

    /** A write that waits for its offset is answered before it is committed: a proof that this is seen. */
    public static void answersEarly(Object write) {
        ((DeferredEvent) write).complete(null);
    }
}
