package org.apache.kafka.raft;

import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;

import org.apache.kafka.common.Uuid;

/** What a live raft client has and is asked, which has other forms in other releases. */
final class LiveRaft {
    /** The method of a log that begins a snapshot wherever it may end. */
    static final String ANY_SNAPSHOT = "storeSnapshot";

    private LiveRaft() {
    }

    /** The id of the directory that holds its metadata log; the client does not know it here. */
    static Uuid directory(KafkaRaftClient<?> client, Path log) {
        Properties read = new Properties();
        try (Reader reader = Files.newBufferedReader(log.resolveSibling("meta.properties"), StandardCharsets.UTF_8)) {
            read.load(reader);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        String found = read.getProperty("directory.id");
        return found == null ? Uuid.ZERO_UUID : Uuid.fromString(found);
    }

    static long checkQuorumMs(KafkaRaftClient<?> client) {
        RaftConfig config = (RaftConfig) TraceInside.get(TraceInside.field(KafkaRaftClient.class, "raftConfig"), client);
        return TraceQuorum.timeoutMs(config.fetchTimeoutMs());
    }

    static Optional<ElectionState> stored(QuorumStateStore store) {
        return Optional.ofNullable(store.readElectionState());
    }

    static OptionalInt destination(RaftRequest.Outbound asked) {
        return OptionalInt.of(asked.destinationId());
    }
}
