package org.apache.kafka.raft;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;

import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.raft.generated.QuorumStateDataJsonConverter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.ShortNode;

/** The file quorum-state on the simulated disk, written as FileQuorumStateStore does it. */
final class SimElectionFile {
    static final String NAME = "quorum-state";
    private static final String VERSION = "data_version";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final SimReplica node;

    SimElectionFile(SimReplica node) {
        this.node = node;
    }

    /** What it says; empty where there is no file. */
    Optional<QuorumStateData> read() {
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
            return Optional.of(QuorumStateDataJsonConverter.read(object, version.shortValue()));
        } catch (IOException e) {
            throw new UncheckedIOException("Error while reading the Quorum status from the file " + NAME, e);
        }
    }

    /** Write data of such a version, and tell of the state that it is of. */
    void write(QuorumStateData data, short version, ElectionState latest) {
        ObjectNode json = (ObjectNode) QuorumStateDataJsonConverter.write(data, version);
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

    void remove() {
        if (node.files.read(NAME) != null) {
            node.files.ofFile(told -> node.files.disk().unlink(told, NAME));
        }
    }
}
