package org.apache.kafka.raft;

import java.nio.file.Path;
import java.util.Optional;

/** quorum-state as states that know how they are written. */
interface SimElectionStates extends SimElections {
    SimElectionFile file();

    @Override
    default Optional<ElectionState> readElectionState() {
        return file().read().map(ElectionState::fromQuorumStateData);
    }

    @Override
    default Optional<ElectionState> read() {
        return readElectionState();
    }

    default void write(ElectionState latest, short version) {
        file().write(latest.toQuorumStateData(version), version, latest);
    }

    @Override
    default Path path() {
        return Path.of(SimElectionFile.NAME);
    }

    @Override
    default void clear() {
        file().remove();
    }
}
