package org.apache.kafka.raft;

import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Collectors;

import org.apache.kafka.raft.generated.QuorumStateData;

/** quorum-state, whose voters are in it; a state is made of its fields. */
final class SimElectionStore implements SimElections {
    private static final short ONLY = 0;
    private static final int NOBODY = -1;

    private final SimElectionFile file;

    SimElectionStore(SimReplica node) {
        this.file = new SimElectionFile(node);
    }

    @Override
    public Optional<ElectionState> read() {
        return file.read().map(data -> new ElectionState(
            data.leaderEpoch(),
            data.leaderId() == NOBODY ? OptionalInt.empty() : OptionalInt.of(data.leaderId()),
            data.votedId() == NOBODY ? OptionalInt.empty() : OptionalInt.of(data.votedId()),
            data.currentVoters().stream().map(QuorumStateData.Voter::voterId).collect(Collectors.toSet())));
    }

    /** Null, where there is no file. */
    @Override
    public ElectionState readElectionState() {
        return read().orElse(null);
    }

    @Override
    public void writeElectionState(ElectionState latest) {
        QuorumStateData data = new QuorumStateData()
            .setLeaderEpoch(latest.epoch)
            .setVotedId(latest.votedIdOpt.orElse(NOBODY))
            .setLeaderId(latest.leaderIdOpt.orElse(NOBODY))
            .setCurrentVoters(latest.voters().stream()
                .map(voter -> new QuorumStateData.Voter().setVoterId(voter)).collect(Collectors.toList()));
        file.write(data, ONLY, latest);
    }

    @Override
    public void clear() {
        file.remove();
    }
}
