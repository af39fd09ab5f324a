package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.server.common.serialization.RecordSerde;

/** The machine above a raft client: a state machine in Python, or Kafka's own controller. */
interface SimMachine<T> {
    RecordSerde<T> serde();

    /** Register listeners; called before the raft client joins the quorum. */
    void open(KafkaRaftClient<T> client);

    /** Go on once it has joined. */
    default void start() {
    }

    /** Answer a request that is not of the quorum's. */
    default CompletableFuture<ApiMessage> serve(short key, short version, ApiMessage request) {
        throw new UnsupportedOperationException("requests are Python's");
    }

    /**
     * The records that the outcome of a request went by, once: {the end of those before, its own}, and of a read
     * those, too, that are in memory and not committed; or null.
     */
    default long[] decided() {
        return null;
    }

    /** kraft.version before and after a request to change levels, once; -1: it was not answered at once; or null. */
    default long[] raised() {
        return null;
    }

    /** A snapshot up to that offset is whole, and about to be told of. */
    default void frozen(long end) {
    }

    /** Look at what an event of its queues has changed. */
    default void afterEvent() {
    }

    /** Look at what a poll of the raft client has changed. */
    default void afterPoll() {
    }

    /** Take in an input for it; what it has not is refused. */
    default void shutdown() {
    }
}
