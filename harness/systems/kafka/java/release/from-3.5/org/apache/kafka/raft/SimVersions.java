package org.apache.kafka.raft;

import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.requests.FetchRequest;

/** The versions of requests, some of which are not stable; who fetches is told in two ways (KIP-903). */
final class SimVersions {
    private SimVersions() {
    }

    /** The latest stable version. */
    static short latest(ApiKeys key) {
        return key.latestVersion(false);
    }

    /** A message as it is told in a version. */
    static ApiMessage told(ApiMessage message, short version) {
        return message instanceof FetchRequestData fetch ? new FetchRequest.SimpleBuilder(fetch).build(version).data() : message;
    }
}
