package org.apache.kafka.raft;

import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;

/** Kafka's own metadata log of this release, which is one of the server's classes, in Scala. */
final class SimRealLogClass {
    private static final String NAME = "kafka.raft.KafkaMetadataLog";

    final ReplicatedLog log;

    /** Load the class, and what it takes with it. */
    static void load() {
        try {
            Class.forName(NAME + "$"); // its companion, which has all that is static
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException("the server's jar of Kafka is missing: " + e.getMessage(), e);
        }
    }

    SimRealLogClass(
        TopicPartition partition, File folder, Time time, Scheduler scheduler, MetadataLogConfig config, int nodeId
    ) {
        try {
            for (Method each : Class.forName(NAME).getMethods()) {
                if (each.getName().equals("apply")) {
                    log = (ReplicatedLog) each.invoke(
                        null, partition, Uuid.METADATA_TOPIC_ID, folder, time, scheduler, config, nodeId);
                    return;
                }
            }
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new IllegalStateException(e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("the server's jar of Kafka is missing: " + e, e);
        }
        throw new IllegalStateException(NAME + " cannot be made");
    }

    /** Up to the limit that is its own in this release. */
    LogFetchInfo read(long offset, Isolation isolation, int maxBytes) {
        return log.read(offset, isolation);
    }
}
