package org.apache.kafka.raft;

import java.util.List;
import java.util.OptionalLong;

import kafka.server.BrokerSnapshotWriterBuilder;
import kafka.server.metadata.BrokerMetadataListener;
import kafka.server.metadata.BrokerMetadataSnapshotter;
import kafka.server.metadata.BrokerServerMetrics;
import kafka.server.metadata.MetadataPublisher;
import kafka.server.metadata.MetadataSnapshotter;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.queue.EventQueue;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;
import org.apache.kafka.snapshot.SnapshotReader;
import scala.Option;

/**
 * Has a node load its metadata by Kafka's own BrokerMetadataListener, as BrokerServer does before 3.4. A broker makes
 * snapshots of its images, by BrokerMetadataSnapshotter; where there is a controller, that makes them of its own memory.
 * A fault of it is logged. Images are published from when the node has read all that is committed: BrokerServer waits until a controller has told it so.
 */
final class SimLoader extends BrokerMetadataListener implements MetadataPublisher {
    private final KafkaRaftClient<ApiMessageAndVersion> client;
    private final List<SimPublisher> publishers;
    private long wholeOffset = -1; // the last one of the snapshot that is loaded next
    private long publishedOffset = -1;
    private boolean isPublishing;

    private SimLoader(
        SimReplica node,
        KafkaRaftClient<ApiMessageAndVersion> client,
        FaultHandler loading,
        List<SimPublisher> publishers,
        Option<MetadataSnapshotter> snapshotter
    ) {
        super(node.id, node.clock, Option.empty(), SimController.snapshotBytes(node.settings), snapshotter,
            new BrokerServerMetrics(new Metrics(node.clock)), loading);
        this.client = client;
        this.publishers = publishers;
    }

    static void open(
        SimReplica node,
        KafkaRaftClient<ApiMessageAndVersion> client,
        FaultHandler loading,
        FaultHandler other,
        List<SimPublisher> publishers
    ) {
        MetadataSnapshotter own = SimController.isOn(node) ? null : new BrokerMetadataSnapshotter(
            node.id, node.clock, Option.empty(), new BrokerSnapshotWriterBuilder(client));
        client.register(new SimLoader(node, client, other, publishers, Option.apply(own)));
    }

    /** Let a controller make snapshots of its memory. */
    static QuorumController.Builder freezing(QuorumController.Builder builder, SimReplica node) {
        return builder.setSnapshotMaxNewRecordBytes(SimController.snapshotBytes(node.settings));
    }

    @Override
    public void handleCommit(BatchReader<ApiMessageAndVersion> reader) {
        super.handleCommit(reader);
        startOnceCaughtUp();
    }

    @Override
    public void handleSnapshot(SnapshotReader<ApiMessageAndVersion> reader) {
        wholeOffset = reader.lastContainedLogOffset();
        super.handleSnapshot(reader);
        startOnceCaughtUp();
    }

    private void startOnceCaughtUp() {
        if (!isPublishing) {
            eventQueue().append(new EventQueue.FailureLoggingEvent(logger().underlying()) {
                @Override
                public void run() {
                    OptionalLong end = client.highWatermark();
                    if (!isPublishing && end.isPresent() && highestMetadataOffset() >= end.getAsLong() - 1) {
                        isPublishing = true;
                        startPublishing(SimLoader.this);
                    }
                }
            });
        }
    }

    @Override
    public void publish(MetadataDelta delta, MetadataImage image) {
        publishedOffset = TraceId.offset(image.highestOffsetAndEpoch());
        boolean isWhole = publishedOffset == wholeOffset;
        publishers.forEach(each -> each.published(delta, image, isWhole));
    }

    @Override
    public long publishedOffset() {
        return publishedOffset;
    }
}
