package krucible.agent;

import java.util.List;

/** Hooks into what has another name, or is not there, in other releases: here the voters never change. */
final class ReleaseHooks {
    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.raft.FileBasedStateStore", "writeElectionState", 1, Advices.ElectionStateWritten.class, "qs"),
        Hook.of("org.apache.kafka.controller.OffsetControlManager", "handleCommitBatch", 1, Advices.Applied.class, "apply")
    );

    private ReleaseHooks() {
    }
}
