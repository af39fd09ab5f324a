package org.apache.kafka.raft;

import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.requests.FetchRequest;

/** Who sends a Fetch, and what one is that is not answered at once: a replica is named with its epoch (KIP-903). */
final class TraceFetch {
    private TraceFetch() {
    }

    static int replica(FetchRequestData fetch) {
        return FetchRequest.replicaId(fetch); // older ones name it as before
    }

    /** What a Fetch is that waits: valid; all others are answered at once. */
    static String waiting(KafkaRaftClient<?> client, FetchRequestData.FetchPartition asked) {
        return "ok";
    }
}
