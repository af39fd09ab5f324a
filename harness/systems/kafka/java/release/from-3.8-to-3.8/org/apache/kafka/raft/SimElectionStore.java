package org.apache.kafka.raft;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;

import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.raft.generated.QuorumStateDataJsonConverter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.ShortNode;

/** quorum-state on the simulated disk, written as FileQuorumStateStore does it. */
final class SimElectionStore implements SimElections {
    private static final String NAME = "quorum-state";
    private static final String VERSION = "data_version";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final SimReplica node;

    SimElectionStore(SimReplica node) {
        this.node = node;
    }

    @Override
    public Optional<ElectionState> readElectionState() {
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
            return Optional.of(ElectionState.fromQuorumStateData(data));
        } catch (IOException e) {
            throw new UncheckedIOException("Error while reading the Quorum status from the file " + NAME, e);
        }
    }

    @Override
    public Optional<ElectionState> read() {
        return readElectionState();
    }

    @Override
    public void writeElectionState(ElectionState latest, short version) {
        ObjectNode json = (ObjectNode) QuorumStateDataJsonConverter.write(latest.toQuorumStateData(version), version);
        json.set(VERSION, new ShortNode(version));
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
    public Path path() {
        return Path.of(NAME);
    }

    @Override
    public void clear() {
        if (node.files.read(NAME) != null) {
            node.files.ofFile(told -> node.files.disk().unlink(told, NAME));
        }
    }
}
