package krucible.agent;

import java.util.List;

/** Hooks into what is not there, or has another name, in other releases: here a leader counts nobody. */
final class ReleaseHooks {
    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.controller.OffsetControlManager", "handleCommitBatch", 1, Advices.Applied.class, "apply")
    );

    private ReleaseHooks() {
    }
}
