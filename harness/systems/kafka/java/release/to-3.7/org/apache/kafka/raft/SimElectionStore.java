package org.apache.kafka.raft;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Collectors;

import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.raft.generated.QuorumStateDataJsonConverter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.ShortNode;

/** quorum-state on the simulated disk, written as FileBasedStateStore does it. */
final class SimElectionStore implements SimElections {
    private static final String NAME = "quorum-state";
    private static final String VERSION = "data_version";
    private static final short ONLY = 0;
    private static final int NOBODY = -1;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final SimReplica node;

    SimElectionStore(SimReplica node) {
        this.node = node;
    }

    /** Empty, where the raft client wants null. */
    @Override
    public Optional<ElectionState> read() {
        byte[] content = node.files.read(NAME);
        if (content == null) {
            return Optional.empty();
        }
        try {
            String line = new String(content, StandardCharsets.UTF_8).lines().findFirst()
                .orElseThrow(() -> new EOFException("File ended prematurely."));
            JsonNode read = MAPPER.readTree(line);
            if (!(read instanceof ObjectNode object)) {
                throw new IOException("Deserialized node " + read + " is not an object node");
            }
            JsonNode version = object.get(VERSION);
            if (version == null) {
                throw new IOException("Deserialized node " + read + " does not have " + VERSION + " field");
            }
            QuorumStateData data = QuorumStateDataJsonConverter.read(object, version.shortValue());
            return Optional.of(new ElectionState(
                data.leaderEpoch(),
                data.leaderId() == NOBODY ? OptionalInt.empty() : OptionalInt.of(data.leaderId()),
                data.votedId() == NOBODY ? OptionalInt.empty() : OptionalInt.of(data.votedId()),
                data.currentVoters().stream().map(QuorumStateData.Voter::voterId).collect(Collectors.toSet())));
        } catch (IOException e) {
            throw new UncheckedIOException("Error while reading the Quorum status from the file " + NAME, e);
        }
    }

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
        ObjectNode json = (ObjectNode) QuorumStateDataJsonConverter.write(data, ONLY);
        json.set(VERSION, new ShortNode(ONLY));
        byte[] content = json.toString().getBytes(StandardCharsets.UTF_8);
        String draft = NAME + ".tmp";
        node.files.ofFile(told -> node.files.disk().create(told, draft));
        node.files.ofFile(told -> node.files.disk().append(told, draft, content));
        node.files.ofFile(told -> node.files.disk().fsync(told, draft));
        node.files.ofFile(told -> node.files.disk().rename(told, draft, NAME));
        node.files.ofFile(told -> node.files.disk().fsyncNames(told));
        node.teller.electionState(latest);
    }

    @Override
    public void clear() {
        if (node.files.read(NAME) != null) {
            node.files.ofFile(told -> node.files.disk().unlink(told, NAME));
        }
    }
}
