package org.apache.kafka.raft;

import java.util.Arrays;
import java.util.List;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

/** What controllers know of replicas since 3.7: their directories, and who is eligible. */
final class TraceReplicas {
    private TraceReplicas() {
    }

    /** The directories in which a partition's replicas are, as far as somebody has told. */
    static List<Uuid> directories(PartitionRegistration partition) {
        return Arrays.stream(partition.directories).filter(each -> !DirectoryId.reserved(each)).toList();
    }

    static List<Uuid> directories(BrokerRegistration broker) {
        return broker.directories();
    }

    static int[] eligible(PartitionRegistration partition) {
        return partition.elr;
    }
}
