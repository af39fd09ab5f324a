package org.apache.kafka.raft;

import krucible.agent.Agent;

/**
 * What hooks call. A mistake of ours must not look like one of Kafka's: it is told as a hook that is missing,
 * and the node goes on.
 */
public final class LiveHooks {
    private LiveHooks() {
    }

    /** Whoever tells something of a node. */
    public interface Teller {
        void tell(LiveNode node) throws Exception;
    }

    /** Tell of something, unless the node has not begun. */
    public static void tell(String type, Teller teller) {
        LiveNode node = LiveNode.started();
        if (node == null) {
            return;
        }
        try {
            teller.tell(node);
        } catch (Throwable e) {
            node.failed(type, e);
        }
    }

    public static void made(Object client) {
        LiveNode.made(client);
    }

    public static void begins(Object quorum) {
        try {
            LiveNode.begins(quorum, Agent.options(), Agent.missing());
        } catch (Throwable e) {
            Agent.complain("cannot tell of the start", e);
        }
    }

    public static void transition(Object to, Object from) {
        tell("role", node -> node.transition(to, from));
    }

    public static void electionState(Object state) {
        tell("qs", node -> node.electionState(state));
    }

    public static void appended(Object records, boolean leads) {
        tell("append", node -> node.appended(records, leads));
    }

    /** Where the log ends; -1 where nobody knows. */
    public static long end() {
        LiveNode node = LiveNode.started();
        return node == null ? -1 : node.endOffset();
    }

    public static void flushed(long upto) {
        tell("flush", node -> node.flushed(upto));
    }

    public static void cut(Object log, long to) {
        tell("trunc", node -> node.cut(log, to));
    }

    public static void highWatermark() {
        tell("hwm", LiveNode::newHighWatermark);
    }

    public static void installed() {
        tell("snap", LiveNode::installed);
    }

    public static void cleaned() {
        tell("lstart", LiveNode::cleaned);
    }

    public static void makes(Object snapshot) {
        tell("snap", node -> node.makes(snapshot));
    }

    public static void frozen(Object snapshot) {
        tell("snap", node -> node.frozen(snapshot));
    }

    public static void taken(Object message, long currentTimeMs) {
        tell("fetch_rx", node -> node.taken(message, currentTimeMs));
    }

    public static void done() {
        tell("fetch_rx", LiveNode::done);
    }

    public static void sent(Object request) {
        tell("fetch_tx", node -> node.sent(request));
    }

    public static void voters(Object voters, long offset) {
        tell("voters", node -> node.voters(voters, offset));
    }

    public static void noQuorum() {
        tell("quorum", LiveNode::noQuorum);
    }

    public static void applied(Object batch) {
        tell("apply", node -> node.applied((Batch<?>) batch));
    }

    /** The controller has applied what lies up to an offset and its epoch; -1: it has nothing any more. */
    public static void appliedTo(long offset, int epoch) {
        tell("apply", node -> node.appliedTo(offset, epoch));
    }

    public static void stopped() {
        tell("stop", LiveNode::stopped);
    }
}
