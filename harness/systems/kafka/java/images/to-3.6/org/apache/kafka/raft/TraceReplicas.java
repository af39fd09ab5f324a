package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

/** What controllers know of replicas: before 3.7 no directories, and nobody who is eligible. */
final class TraceReplicas {
    private static final int[] NOBODY = {};

    private TraceReplicas() {
    }

    static List<Uuid> directories(PartitionRegistration partition) {
        return List.of();
    }

    static List<Uuid> directories(BrokerRegistration broker) {
        return List.of();
    }

    static int[] eligible(PartitionRegistration partition) {
        return NOBODY;
    }
}
