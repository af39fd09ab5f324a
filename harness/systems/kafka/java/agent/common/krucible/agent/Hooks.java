package krucible.agent;

import java.util.List;
import java.util.stream.Stream;

/** All hooks, and which events need them. */
final class Hooks {
    private static final String RAFT = "org.apache.kafka.raft.";
    private static final String CONTROLLER = "org.apache.kafka.controller.";
    private static final String LOG = "kafka.raft.KafkaMetadataLog|" + RAFT + "internals.KafkaRaftLog";
    private static final String UNIFIED_LOG = "org.apache.kafka.storage.internals.log.UnifiedLog|kafka.log.UnifiedLog";

    private static final List<Hook> OF_ALL_RELEASES = List.of(
        Hook.of(RAFT + "KafkaRaftClient", "<init>", -1, Advices.Made.class, "start"),
        Hook.of(RAFT + "QuorumState", "initialize", 1, Advices.Begins.class, "start"),
        Hook.of(RAFT + "QuorumState", "memoryTransitionTo|transitionTo", 1, Advices.Transition.class, "role", "elected", "quorum"),
        Hook.of(RAFT + "FileQuorumStateStore|" + RAFT + "FileBasedStateStore", "writeElectionState", -1, Advices.ElectionStateWritten.class, "qs"),
        Hook.of(LOG, "appendAsLeader", 2, Advices.AppendedAsLeader.class, "append"),
        Hook.of(LOG, "appendAsFollower", -1, Advices.AppendedAsFollower.class, "append"),
        Hook.of(LOG, "flush", 1, Advices.Flushed.class, "flush"),
        Hook.of(UNIFIED_LOG, "truncateTo", 1, Advices.Cut.class, "trunc"),
        Hook.of(LOG, "updateHighWatermark", 1, Advices.HighWatermark.class, "hwm"),
        Hook.of(LOG, "truncateToLatestSnapshot", 0, Advices.Installed.class, "snap", "lstart"),
        Hook.of(LOG, "deleteBeforeSnapshot", 1, Advices.Cleaned.class, "snap", "lstart"),
        Hook.of(LOG, "maybeClean", 0, Advices.Cleaned.class, "snap", "lstart"),
        Hook.of(LOG, "createNewSnapshot", 1, Advices.Makes.class, "snap"),
        Hook.of(LOG, "onSnapshotFrozen", 1, Advices.Frozen.class, "snap"),
        Hook.of(RAFT + "KafkaNetworkChannel|kafka.raft.KafkaNetworkChannel", "send", 1, Advices.Sent.class, "fetch_tx", "votereq"),
        Hook.of(CONTROLLER + "QuorumController$ControllerWriteEvent", "complete", 1, Advices.Acknowledged.class, "ack"),
        Hook.of(CONTROLLER + "QuorumController", "claim", -1, Advices.Claim.class, "claim"),
        Hook.of(CONTROLLER + "QuorumController", "renounce", 0, Advices.Renounce.class, "renounce"),
        Hook.of(RAFT + "KafkaRaftClient", "close", 0, Advices.Stopped.class, "stop")
    );

    static final List<Hook> ALL = Stream.of(OF_ALL_RELEASES, ReleaseHooks.ALL, MessageHooks.ALL, MetadataHooks.ALL).flatMap(List::stream).toList();

    private Hooks() {
    }
}
