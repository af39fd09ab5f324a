package org.apache.kafka.raft;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Utils;

/** What is known of the inside of Kafka's raft classes. */
final class TraceRaft {
    private TraceRaft() {
    }

    /** The type of a message, as Vote requests are of the type VoteRequest. */
    static String typeOf(RaftMessage message) {
        String name = message.data().getClass().getSimpleName();
        return name.substring(0, name.length() - "Data".length());
    }

    /** How long a candidate has waited before it stands again; releases since 4.1 have no such timer. */
    static OptionalLong backoff(CandidateState candidate) {
        if (!TraceInside.has(CandidateState.class, "backoffTimer") || !(Boolean) TraceInside.call(candidate, "isBackingOff")) {
            return OptionalLong.empty();
        }
        return OptionalLong.of((Long) TraceInside.get(TraceInside.get(candidate, "backoffTimer"), "timeoutMs"));
    }

    /** How long the timer of a follower runs that was set last: until it stands, unless it hears of its leader. */
    static long fetchTimeoutMs(FollowerState follower) {
        return (Long) TraceInside.get(TraceInside.get(follower, "fetchTimer"), "timeoutMs");
    }

    /** The setting controller.quorum.election.backoff.max.ms. */
    static int electionBackoffMaxMs(KafkaRaftClient<?> client) {
        boolean isOfRaft = TraceInside.has(KafkaRaftClient.class, "raftConfig"); // up to 3.7
        Object config = TraceInside.get(TraceInside.field(KafkaRaftClient.class, isOfRaft ? "raftConfig" : "quorumConfig"), client);
        return (Integer) TraceInside.call(config, "electionBackoffMaxMs");
    }

    static Optional<Uuid> directory(Uuid id) {
        return id.equals(Uuid.ZERO_UUID) ? Optional.empty() : Optional.of(id);
    }

    /**
     * SHA-256 of what a snapshot says. Left out is when it was written, which batches and header have, and
     * the order of its records: that of quotas is the order of a hash map.
     */
    static String digest(Records snapshot) {
        try {
            List<byte[]> values = new ArrayList<>();
            for (RecordBatch batch : snapshot.batches()) {
                for (Record record : batch) {
                    if (!batch.isControlBatch()
                        || ControlRecordType.parse(record.key()) != ControlRecordType.SNAPSHOT_HEADER) {
                        values.add(Utils.toArray(record.value()));
                    }
                }
            }
            values.sort(Arrays::compareUnsigned);
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            values.forEach(digest::update);
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
