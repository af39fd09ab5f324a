package org.apache.kafka.raft;

import java.util.List;

import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Writes an image as the records that it is; other releases ask for that in another form. */
final class TraceWritten {
    private TraceWritten() {
    }

    static List<ApiMessageAndVersion> records(MetadataImage image) {
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image.features().metadataVersionOrThrow())
            .setEligibleLeaderReplicasEnabled(image.features().isElrEnabled()).build());
        return writer.records();
    }
}
