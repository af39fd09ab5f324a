package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeSet;

import org.apache.kafka.common.utils.Time;

/**
 * The voters that a leader has heard from since the last majority, put in the place of its own set: the
 * leader adds a voter for a valid Fetch, and clears the set when a majority is in it.
 */
final class TraceCredits extends HashSet<Integer> {
    private static final long serialVersionUID = 1L;

    /** The node that leads. */
    interface Leading {
        Time clock();

        /** The wall clock as of which it handles what it does now, in ms: not later than it is. */
        long handledMs();

        /** How long it leads without a majority that fetches, in ms. */
        long checkQuorumMs();

        /** Begin an event of the present epoch. */
        TraceEvents event(String type);
    }

    private final transient Leading node;
    private final transient LeaderState<?> leader;
    private final Map<Integer, Long> heardMs = new HashMap<>();
    private long sinceMs;
    private long sinceWallMs; // the leader's timer goes by the wall clock
    private long tellFromMs;
    private String majority; // that is not told of yet
    private long beforeItMs; // when the majority before was there

    TraceCredits(Leading node, LeaderState<?> leader) {
        this.node = node;
        this.leader = leader;
        this.sinceMs = nowMs();
        this.sinceWallMs = node.handledMs();
        this.tellFromMs = sinceMs;
    }

    private long nowMs() {
        return node.clock().hiResClockMs();
    }

    @Override
    public boolean add(Integer voter) {
        heardMs.put(voter, nowMs());
        return super.add(voter);
    }

    @Override
    public void clear() {
        if (nowMs() >= tellFromMs) { // with three voters each Fetch is a majority
            majority = heard();
            beforeItMs = sinceMs;
            tellFromMs = nowMs() + node.checkQuorumMs() / 3;
        }
        super.clear();
        sinceMs = nowMs();
        sinceWallMs = node.handledMs();
    }

    /** Tell of a majority that has fetched, now that the request is told of that made it one. */
    void tellMajority() {
        if (majority != null) {
            tell(true, majority, nowMs() - beforeItMs);
            majority = null;
        }
    }

    /** Tell that no majority has fetched, for how long by the clock that the leader goes by. */
    void tellNone() {
        tell(false, heard(), node.clock().milliseconds() - sinceWallMs);
    }

    private void tell(boolean ok, String heard, long since) {
        node.event("quorum").put("ok", ok).open("heard", '[').raw(heard).close(']')
            .put("since_ms", since).put("quorum_ms", node.checkQuorumMs()).end();
    }

    /** Whom the leader counts: voters, and those who were voters when they fetched. */
    private String heard() {
        StringJoiner all = new StringJoiner(",");
        Set<Integer> left = new TreeSet<>(this);
        for (TraceAck ack : TraceClient.acks(leader)) {
            int id = ack.key().id();
            if (left.remove(id)) {
                all.add(heard(id, ack.key().directoryId().map(each -> '"' + TraceEvents.hex(each) + '"').orElse("null")));
            }
        }
        left.forEach(id -> all.add(heard(id, "null")));
        return all.toString();
    }

    private String heard(int id, String directory) {
        return "[" + id + "," + directory + "," + (nowMs() - heardMs.get(id)) + "]";
    }
}
