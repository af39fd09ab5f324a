package org.apache.kafka.raft;

import java.util.Optional;

/** The file of a node's vote. */
interface SimElections extends QuorumStateStore {
    /** What it says; empty where there is no file. */
    Optional<ElectionState> read();
}
