package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.util.Locale;

import org.apache.kafka.common.message.FetchRequestData;

/** Who sends a Fetch, and what one is that is not answered at once: a replica is named by its id alone. */
final class TraceFetch {
    private static final Field LOG = TraceInside.field(KafkaRaftClient.class, "log");

    private TraceFetch() {
    }

    static int replica(FetchRequestData fetch) {
        return fetch.replicaId();
    }

    /** What a Fetch is that waits: one that diverges, or needs a snapshot, waits as one that is valid. */
    static String waiting(KafkaRaftClient<?> client, FetchRequestData.FetchPartition asked) {
        ValidOffsetAndEpoch.Kind kind = ((ReplicatedLog) TraceInside.get(LOG, client))
            .validateOffsetAndEpoch(asked.fetchOffset(), asked.lastFetchedEpoch()).kind();
        return kind == ValidOffsetAndEpoch.Kind.VALID ? "ok" : kind.name().toLowerCase(Locale.ROOT);
    }
}
