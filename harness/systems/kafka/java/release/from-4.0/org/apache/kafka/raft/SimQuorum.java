package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.Map;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.server.common.KRaftVersion;

/** How nodes join a quorum, and its version, which have other forms in other releases. */
final class SimQuorum {
    static final short KRAFT_VERSION = KRaftVersion.LATEST_PRODUCTION.featureLevel();

    private SimQuorum() {
    }

    static void join(
        KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters, QuorumStateStore store, Metrics metrics
    ) {
        client.initialize(voters, store, metrics, new ExternalKRaftMetrics() {
            @Override
            public void setIgnoredStaticVoters(boolean ignoredStaticVoters) {
            }
        });
    }
}
