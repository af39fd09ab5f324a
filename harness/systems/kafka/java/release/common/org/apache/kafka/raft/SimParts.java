package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Random;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.LogContext;

/** All that a raft client is made of, in whatever release. */
record SimParts<T>(
    SimReplica node,
    Map<String, String> identity,
    Uuid directory,
    boolean isController,
    List<InetSocketAddress> bootstrap,
    Map<ListenerName, InetSocketAddress> listeners,
    Map<Integer, InetSocketAddress> voters,
    SimMachine<T> machine,
    NetworkChannel channel,
    RaftMessageQueue queue,
    SimMetadataLog log,
    ExpirationService expirations,
    QuorumStateStore store,
    Metrics metrics,
    LogContext logContext,
    Random random
) {
    static final int MAX_FETCH_WAIT_MS = 500; // of KafkaRaftClient, where it is private in some releases
}
