package krucible.agent;

import java.util.List;

/** Hooks into what has another name, or is not there, in other releases. */
final class ReleaseHooks {
    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.raft.FileQuorumStateStore", "writeElectionState", 2, Advices.ElectionStateWritten.class, "qs"),
        Hook.of("org.apache.kafka.raft.internals.VoterSetHistory", "addAt", 2, Advices.Voters.class, "voters"),
        Hook.of("org.apache.kafka.controller.OffsetControlManager", "handleCommitBatchMetrics", 1, Advices.Applied.class, "apply")
    );

    private ReleaseHooks() {
    }
}
