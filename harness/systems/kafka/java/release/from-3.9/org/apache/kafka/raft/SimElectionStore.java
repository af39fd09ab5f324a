package org.apache.kafka.raft;

import org.apache.kafka.server.common.KRaftVersion;

/** quorum-state, written in the version that goes with a kraft.version. */
record SimElectionStore(SimElectionFile file) implements SimElectionStates {
    SimElectionStore(SimReplica node) {
        this(new SimElectionFile(node));
    }

    @Override
    public void writeElectionState(ElectionState latest, KRaftVersion kraftVersion) {
        write(latest, kraftVersion.quorumStateVersion());
    }
}
