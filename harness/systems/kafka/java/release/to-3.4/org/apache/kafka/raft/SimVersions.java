package org.apache.kafka.raft;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;

/** The versions of requests, all of which are stable. */
final class SimVersions {
    private SimVersions() {
    }

    static short latest(ApiKeys key) {
        return key.latestVersion();
    }

    /** A message as it is told in a version: the same in all. */
    static ApiMessage told(ApiMessage message, short version) {
        return message;
    }
}
