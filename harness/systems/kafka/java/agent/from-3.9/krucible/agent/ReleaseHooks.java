package krucible.agent;

import java.util.List;

/** Hooks into what is not there, or has another name, in other releases. */
final class ReleaseHooks {
    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.raft.LeaderState", "timeUntilCheckQuorumExpires", 1, Advices.NoQuorum.class, "quorum"),
        Hook.of("org.apache.kafka.raft.internals.VoterSetHistory", "addAt", 2, Advices.Voters.class, "voters"),
        Hook.of("org.apache.kafka.controller.OffsetControlManager", "handleCommitBatchMetrics", 1, Advices.Applied.class, "apply")
    );

    private ReleaseHooks() {
    }
}
