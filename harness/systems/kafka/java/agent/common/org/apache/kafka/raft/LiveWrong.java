package org.apache.kafka.raft;

import java.lang.reflect.InvocationTargetException;
import java.util.Optional;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/** Makes Kafka do something wrong, once, to prove that it is seen. */
public final class LiveWrong {
    private static final long FROM = 20; // the high watermark at which it happens
    private static final long DEPTH = 5;
    private static final int NOBODY = 9999; // the id of a candidate that there is not
    private static final int SETTINGS = 5; // one of so many is forgotten
    private static final int GRANTS = 3; // one of so many is refused
    private static boolean isDone;
    private static int settings;
    private static int grants;

    private LiveWrong() {
    }

    /** The high watermark of a node has risen. */
    static void after(LiveNode node, String wrong, long highWatermark) throws ReflectiveOperationException {
        if (isDone || highWatermark < FROM) {
            return;
        }
        switch (wrong) {
            case "deep-truncation" -> {
                isDone = true;
                call(node, "truncateTo", highWatermark - DEPTH);
            }
            case "falling-high-watermark" -> {
                isDone = true;
                call(node, "updateHighWatermark", highWatermark - DEPTH);
                node.newHighWatermark();
            }
            case "early-snapshot" -> {
                isDone = true;
                OffsetAndEpoch id = new OffsetAndEpoch(highWatermark + DEPTH, node.quorum().epoch());
                node.makes(id);
                Object log = node.log().itself();
                Object begun = log.getClass().getMethod(LiveRaft.ANY_SNAPSHOT, OffsetAndEpoch.class).invoke(log, id);
                try (RawSnapshotWriter writer = (RawSnapshotWriter) ((Optional<?>) begun).orElseThrow()) {
                    writer.freeze();
                }
            }
            default -> { }
        }
    }

    /** A new ISR is granted or refused; what is said instead. */
    public static Object refusal(Object error) {
        if (error != Errors.NONE) {
            return error;
        }
        grants++;
        return grants % GRANTS == 0 ? Errors.INVALID_REQUEST : error;
    }

    /** An image, or a controller's memory, is about to take in a setting; whether it does not. */
    public static boolean forgets() {
        settings++;
        return settings % SETTINGS == 0;
    }

    private static void call(LiveNode node, String method, long argument) throws ReflectiveOperationException {
        try {
            node.unified().getClass().getMethod(method, long.class).invoke(node.unified(), argument);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(e.getCause());
        }
    }

    /** Another candidate asks for the vote that a Vote request has asked for. */
    public static void askAgain(Object request) {
        RaftRequest.Inbound asked = (RaftRequest.Inbound) request;
        VoteRequestData again = ((VoteRequestData) asked.data()).duplicate();
        VoteRequestData.PartitionData part = again.topics().get(0).partitions().get(0);
        if (TraceVotes.isPreVote(part) || TraceVotes.candidate(part) == NOBODY) {
            return;
        }
        TraceVotes.from(part, NOBODY, new Uuid(0, 1));
        LiveNode.client().handle(LiveAsked.with(asked, again));
    }
}
