package org.apache.kafka.raft;

import java.nio.file.Path;
import java.util.Optional;

import org.apache.kafka.server.common.KRaftVersion;

/** quorum-state in a folder of this host, by Kafka's own class; tells of each write. */
final class SimRealElections implements SimElections {
    private final SimReplica node;
    private final FileQuorumStateStore own;

    SimRealElections(SimReplica node) {
        this.node = node;
        this.own = new FileQuorumStateStore(node.folder.resolve(FileQuorumStateStore.DEFAULT_FILE_NAME).toFile());
    }

    @Override
    public Optional<ElectionState> read() {
        return own.readElectionState();
    }

    @Override
    public Optional<ElectionState> readElectionState() {
        return own.readElectionState();
    }

    @Override
    public void writeElectionState(ElectionState latest, KRaftVersion version) {
        own.writeElectionState(latest, version);
        node.teller.electionState(latest);
    }

    @Override
    public Path path() {
        return own.path();
    }

    @Override
    public void clear() {
        own.clear();
    }
}
