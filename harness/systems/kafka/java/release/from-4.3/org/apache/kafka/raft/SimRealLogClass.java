package org.apache.kafka.raft;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.server.util.Scheduler;

/** Kafka's own metadata log of this release. */
final class SimRealLogClass {
    final RaftLog log;

    /** Load the class. */
    static void load() {
        try {
            Class.forName(KafkaRaftLog.class.getName());
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }

    SimRealLogClass(
        TopicPartition partition, File folder, Time time, Scheduler scheduler, MetadataLogConfig config, int nodeId
    ) {
        try {
            log = KafkaRaftLog.createLog(
                partition, Uuid.METADATA_TOPIC_ID, folder, time, scheduler, config, nodeId);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    LogFetchInfo read(long offset, Isolation isolation, int maxBytes) {
        return log.read(offset, isolation, maxBytes);
    }
}
