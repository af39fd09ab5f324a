package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Writes an image as the records that it is, which it hands out in lists before 3.4. */
final class TraceWritten {
    private TraceWritten() {
    }

    static List<ApiMessageAndVersion> records(MetadataImage image) {
        List<ApiMessageAndVersion> all = new ArrayList<>();
        image.write(all::addAll);
        return all;
    }
}
