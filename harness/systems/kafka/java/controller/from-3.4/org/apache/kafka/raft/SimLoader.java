package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.image.publisher.SnapshotEmitter;
import org.apache.kafka.image.publisher.SnapshotGenerator;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;

/** Has a node load its metadata and make snapshots of its images, by MetadataLoader and SnapshotGenerator, as SharedServer does. */
final class SimLoader {
    private static final long SNAPSHOT_MS = 3_600_000;

    private SimLoader() {
    }

    static void open(
        SimReplica node,
        KafkaRaftClient<ApiMessageAndVersion> client,
        FaultHandler loading,
        FaultHandler other,
        List<SimPublisher> publishers
    ) {
        MetadataLoader loader = new MetadataLoader.Builder()
            .setNodeId(node.id)
            .setTime(node.clock)
            .setThreadNamePrefix("kafka-" + node.id + "-")
            .setFaultHandler(loading)
            .setHighWaterMarkAccessor(client::highWatermark)
            .build();
        SnapshotGenerator generator = new SnapshotGenerator.Builder(
                new SnapshotEmitter.Builder().setNodeId(node.id).setRaftClient(client).build())
            .setNodeId(node.id)
            .setTime(node.clock)
            .setFaultHandler(other)
            .setMaxBytesSinceLastSnapshot(SimController.snapshotBytes(node.settings))
            .setMaxTimeSinceLastSnapshotNs(TimeUnit.MILLISECONDS.toNanos(
                SimController.number(node.settings, "metadata.log.max.snapshot.interval.ms", SNAPSHOT_MS)))
            .build();
        List<MetadataPublisher> all = new ArrayList<>(publishers);
        all.add(1, generator); // the images first, which a snapshot is told with
        loader.installPublishers(all);
        client.register(loader);
    }

    /** Let a controller make no snapshots: its node does. */
    static QuorumController.Builder freezing(QuorumController.Builder builder, SimReplica node) {
        return builder;
    }
}
