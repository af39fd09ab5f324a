package org.apache.kafka.raft;

/** quorum-state, written in a version that it is given. */
record SimElectionStore(SimElectionFile file) implements SimElectionStates {
    SimElectionStore(SimReplica node) {
        this(new SimElectionFile(node));
    }

    @Override
    public void writeElectionState(ElectionState latest, short version) {
        write(latest, version);
    }
}
